// Package terraform tests the modules and examples in terraform/: that they are valid, that
// their own tests pass and fail where they should, and that the programs take what they render.
//
//	modules_test.go   fmt, init, validate, test
//	input_test.go     mistakes in variables that must be found
//	order_test.go     what must be made or updated before what
//	tags_test.go      the variable tags reaches all that can have tags
//	apart_test.go     modules and examples read nothing outside of themselves
//	keys_test.go      a task takes from its secret what weir bootstrap makes
//	real_test.go      a plan of three regions by the provider itself, where it is on this machine
//	machine_test.go   one PoP and one region from what the module bootstrap renders
//	collector_test.go the metrics that CloudWatch is to have are those that the programs send
//	boot_test.go      the scripts of a machine: its first boot, and secrets that change
//	renew_test.go     Consul reads a renewed certificate
//	snapshot_test.go  Consul's servers are lost, and restored from a snapshot
//	cloud_test.go     what stands for EC2 in these tests
//	unit_test.go      what stands for systemd
//	readme_test.go    the tables of inputs and outputs
//
// It needs Terraform or OpenTofu: `make terraform-test` finds or builds one.
package terraform
