// Package config has every setting of weir-regional as a field of [Config], with its unit, default, range and effect. Package
// settings describes where a field can be set.
package config

import (
	"errors"
	"io"

	"github.com/weirlimit/weir/internal/daemon"
	"github.com/weirlimit/weir/internal/envoyrls"
	"github.com/weirlimit/weir/internal/settings"
)

// Config is everything that an operator can set: the settings of every tier, and those of
// Envoy's rate limit service. [Load] checks the values; a Config made otherwise must pass
// [Config.Check].
type Config struct {
	// Config has the settings of every tier. Rules is required, unless RatelimitConfig is
	// set: then there may be no rules for PoPs.
	daemon.Config          `embed:""`
	daemon.AggregatorCalls `embed:""`

	// RatelimitConfig is a directory with configuration of envoyproxy/ratelimit,
	// which is used unchanged. It is watched as Rules is. Empty: Envoy's rate limit
	// service is not served, unless RatelimitBindings is given.
	RatelimitConfig string          `help:"Directory with envoyproxy/ratelimit's YAML; serves Envoy's rate limit service. With it --rules may be left out." placeholder:"DIR"`
	Ratelimit       envoyrls.Limits `embed:"" prefix:"ratelimit-"`

	// RatelimitBindings is a file that binds descriptors of Envoy's rate limit service to
	// rules of the rules file. It is watched as Rules is. Empty: there are none.
	RatelimitBindings string            `help:"File that binds descriptors of Envoy's rate limit service to rules." placeholder:"FILE"`
	RLS               envoyrls.Endpoint `embed:"" prefix:"rls-"`
}

// Load reads the configuration of a process from its arguments (without the
// program's name), its environment and its configuration file. Help goes to out.
// The error is [settings.ErrHelp] when help was asked for; else it names every field
// that is wrong and where it was set.
func Load(args []string, out io.Writer) (*Config, error) {
	c := new(Config)
	program := settings.Program{
		Name:        "weir-regional",
		Description: "The region of Weir: grants leases on rate limits to points of presence.",
	}
	if err := settings.Load(program, c, &c.File, args, out); err != nil {
		return nil, err
	}
	return c, c.Check()
}

// Check names every field that is out of range, and the range. (The parser of
// flags would call a method Validate by itself, before the file has been read.)
func (c *Config) Check() error {
	return errors.Join(
		settings.Reject(c.Rules == "" && c.RatelimitConfig == "",
			"rules: is missing; give the path of a rules file, such as --rules rules.yaml, or --ratelimit-config"),
		settings.Reject(c.Rules == "" && c.RatelimitConfig != "" && c.RatelimitBindings != "",
			"ratelimit_bindings: needs rules to bind descriptors to; give --rules"),
		c.Config.Check(daemon.Input{Field: "ratelimit_bindings", Path: c.RatelimitBindings}),
		c.TLS.CheckRegions(false),
		c.AggregatorCalls.Check(),
		settings.Reject(c.TLS.ClientCA != "" && len(c.TLS.ClientSAN) == 0 && c.Region == "",
			"tls_client_ca: needs region or tls_client_san: else every certificate of these authorities may call; give the region whose PoPs may, such as --region eu"),
		settings.Reject(c.Consul != "" && c.Region == "", "region: is missing; with consul the replicas of a region are found by its name: give one, such as --region eu"),
		envoyrls.Check(&c.Ratelimit, &c.RLS),
	)
}
