//! Nothing: the tests of this package are its integration tests.
