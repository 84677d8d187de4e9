// Package quotav1 has the messages of the quota protocol, weir.quota.v1, and package quotav1connect its service. A region
// serves it to PoPs and services, and an aggregator serves it to regions. quota.proto documents each field, its unit and
// its zero value. docs/protocol.md explains how to write a client.
//
// Messages of version 1 only gain fields. A client that ignores fields it does not know keeps working.
//
// The filter and the region use the codec of internal/wire for Acquire, because it needs neither reflection nor the
// protobuf runtime.
package quotav1

//go:generate go tool -modfile=../../../tools/go.mod buf generate
