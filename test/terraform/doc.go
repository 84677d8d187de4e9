// Package terraform tests the modules and examples in terraform/: that they are valid, that
// their own tests pass and fail where they should, and that the programs take what they render.
//
// It needs Terraform or OpenTofu: `make terraform-test` finds or builds one.
package terraform
