mod grpc;
mod http;
mod limits;
mod machine;
