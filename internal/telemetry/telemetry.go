// Package telemetry is how a program of Weir tells what it does: metrics for
// Prometheus and a structured log, set up once. It is the only package that knows
// the exporters; the others declare instruments on a [Registry] and are given a
// logger.
//
// A label's values come from the configuration, never from requests: keys, paths
// and addresses belong into logs and traces.
package telemetry
