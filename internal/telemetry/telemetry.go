// Package telemetry sets up the metrics for Prometheus and the structured log of a
// program. Only this package uses exporters; the others declare instruments on a
// [Registry] and get a logger.
//
// Values of labels come from the configuration, never from requests: keys, paths
// and addresses belong in logs and traces.
package telemetry
