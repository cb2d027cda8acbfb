mod auth;
mod grpc;
mod http;
mod limits;
mod machine;
mod quota;
mod served;
mod tls;
