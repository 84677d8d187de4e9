// Package quotapb holds the quota protocol, weir.quota.v1: the messages of
// quota.proto and, in quotapbconnect, its service. Every field is documented in
// quota.proto. The filter uses the codec in wire instead, which needs neither
// reflection nor the protobuf runtime.
package quotapb

//go:generate go tool -modfile=../../tools/go.mod buf generate
