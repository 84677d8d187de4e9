// Package terraform tests the modules and examples in terraform/: that they are valid, that
// their own tests pass and fail where they should, and that the programs take what they render.
//
//	modules_test.go   fmt, init, validate, test
//	order_test.go     what must be made or updated before what
//	source_test.go    what the configuration of each module has
//	real_test.go      a plan of three regions by the provider itself, where it is on this machine
//	machine_test.go   one PoP and one region from what the module bootstrap renders
//	collector_test.go the metrics that CloudWatch is to have are those that the programs send
//	boot_test.go      the scripts of a machine: its first boot, and secrets that change
//	snapshot_test.go  Consul's servers are lost, and restored from a snapshot
//	cloud_test.go     what stands for EC2 in these tests
//	unit_test.go      what stands for systemd
//
// It needs Terraform or OpenTofu: `make terraform-test` finds or builds one.
package terraform
