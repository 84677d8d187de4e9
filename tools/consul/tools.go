//go:build tools

// Package tools requires Consul.
package tools

import _ "github.com/hashicorp/consul"
