package daemon

import (
	"errors"
	"log/slog"
	"strconv"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Consul has the settings of calls of Consul's agent. Without them Consul's own variables
// decide, such as CONSUL_HTTP_TOKEN, CONSUL_HTTP_SSL and CONSUL_CACERT.
type Consul struct {
	// Primary is the datacenter of the aggregators, and of the rules in Consul. Empty: that of
	// the agent.
	Primary string `help:"Datacenter of the aggregators and of rules in Consul; default: that of the agent." placeholder:"DC"`

	// TokenFile has the ACL token; white space around it is ignored. It is read for each
	// call, so that a token is changed by changing the file; while that is empty or cannot
	// be read, the last token stays.
	TokenFile string `help:"File with the ACL token, read for each call." placeholder:"FILE"`

	ClientTLS `embed:"" set:"calls=calls of Consul's agent"`
}

func (c *Config) checkConsul() error {
	if c.Consul == "" {
		return errors.Join(
			settings.Refuse(c.Advertise != "", "consul: is missing; advertise is the address that it gives to callers"),
			settings.Refuse(c.ConsulBy != Consul{}, "consul: is missing, but consul_* is set; give the address of the agent, such as --consul 127.0.0.1:8500"),
		)
	}
	errs := []error{settings.Address("consul", c.Consul), c.ConsulBy.check("consul")}
	if c.Advertise != "" {
		_, err := strconv.ParseUint(portOf(c.Advertise), 10, 16)
		errs = append(errs, settings.Refuse(err != nil, "advertise: %q must be host:port with a number", c.Advertise))
	}
	return errors.Join(errs...)
}

// reach is how the agent is reached. The error is a file that cannot be used.
func (c *Consul) reach(address string, metrics *telemetry.Registry, log *slog.Logger) (consul.Config, error) {
	set, err := c.load("consul", metrics, log)
	return consul.Config{Address: address, TLS: set, ServerName: c.TLSName, TokenFile: c.TokenFile}, err
}
