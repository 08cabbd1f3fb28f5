mod conformance;
mod elsewhere;
