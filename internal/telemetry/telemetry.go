// Package telemetry sets up the metrics, the traces and the structured log of a program.
// Only this package uses exporters and OpenTelemetry's SDK; the others declare instruments
// on a [Registry], make spans by a [Tracer] and get a logger.
//
// The span of a request travels in the context of its calls. What is gathered for many
// requests and sent as one call has the span of the first as its parent, and links to the
// others: [Waiting] takes them out of the context of each, [WithWaiting] puts them into that
// of the call.
//
// Values of labels come from the configuration, never from requests: keys, paths
// and addresses belong in logs and traces. Not even traces contain keys.
package telemetry
