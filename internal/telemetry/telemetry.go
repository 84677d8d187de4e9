// Package telemetry sets up the metrics, the traces and the structured log of a program. Only this package uses exporters and
// OpenTelemetry's SDK; other packages declare instruments on a [Registry], make spans by a [Tracer] and get a logger.
//
// The span of a request travels in the context of its calls. A call for many requests has the span of the first as its parent,
// and links to the others: [Waiting] takes the spans out of the contexts of the requests, [WithWaiting] puts them into the
// context of the call.
//
// Values of labels come from the configuration, never from requests: paths and addresses belong in logs and traces. Not even
// traces contain keys.
package telemetry
