// Package quotapb holds the quota protocol, weir.quota.v1: the messages of quota.proto and, in quotapbconnect, its service.
// quota.proto documents every field. The filter uses the codec in package wire instead, which needs neither reflection nor
// the protobuf runtime.
package quotapb

//go:generate go tool -modfile=../../tools/go.mod buf generate
