// OpenTofu, for machines without Terraform: tools/terraform.sh builds it. It is a module of its
// own, so that its dependencies are not those of Weir.
module github.com/weirlimit/weir/tools/tofu

go 1.26.0

require github.com/opentofu/opentofu v1.10.10

// OpenTofu replaces this itself, which does not count in a module that requires it.
replace github.com/hashicorp/hcl/v2 => github.com/opentofu/hcl/v2 v2.20.2-0.20251021132045-587d123c2828
