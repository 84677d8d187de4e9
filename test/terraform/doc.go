// Package terraform tests the modules and examples in terraform/: that they are valid, that
// their own tests pass and fail where they should, and that the programs take what they render.
//
//	modules_test.go   fmt, init, validate, test
//	planted_test.go   mistakes that must be found
//	machine_test.go   one PoP and one region from what the module bootstrap renders
//	collector_test.go the metrics that CloudWatch is to have are those that the programs send
//	boot_test.go      the script that runs at a machine's first boot
//	readme_test.go    the tables of inputs and outputs
//
// It needs Terraform or OpenTofu: `make terraform-test` finds or builds one.
package terraform
