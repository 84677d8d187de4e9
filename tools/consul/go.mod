// Consul, to test against: tools/setup.sh builds it. It is a module of its own, so that its
// dependencies are not those of Weir.
module github.com/weirlimit/weir/tools/consul

go 1.26.0

require (
	github.com/hashicorp/consul v1.21.0
	// Raised to a version that the checksum database has.
	github.com/hashicorp/consul-awsauth v0.0.0-20250825122907-9e35fe9ded3a
)

// Consul excludes these itself, which does not count in a module that requires it.
exclude (
	github.com/hashicorp/go-msgpack v1.1.5
	github.com/hashicorp/go-msgpack v1.1.6
)
