//! `quipu import` of real rows through the gateway.

use super::turns::Turn;
use crate::{
    import::{TEMPLATES, assert_true_counts},
    process::{Place, copy_of_flights, ended},
};

#[test]
fn every_flight_is_imported_through_the_gateway_once() {
    let mut turn = Turn::take();
    let cluster = turn.cluster();
    cluster.api().put_namespace("january", "5s");
    let place = Place::new();
    let file = copy_of_flights(&place);
    let file = file.to_str().expect("a path in UTF-8");
    let import = || {
        let url = &cluster.gateway.grpc;
        let to = ["--namespace", "january", "--server", url, "--timeout", "5m"];
        let arguments = [&["import", file][..], &to].concat();
        let mut command = cluster.installation.quipu(&arguments);
        ended(&command.args(TEMPLATES).output().expect("it runs"))
    };
    let (code, said) = import();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("27004 rows, 54008 adds"), "{said}");
    assert_true_counts(&cluster.api());
    let (code, said) = import();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("nothing was sent now"), "{said}");
    cluster.installation.assert_no_panic();
}
