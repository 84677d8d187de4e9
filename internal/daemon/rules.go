package daemon

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/follow"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/service/secrets"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/internal/watch"
)

// rules hands rules to the parts of a tier that use them, and tells what is in force.
type rules struct {
	alone   bool // nobody counts rules with scope: global
	service *service.Service
	divided *aggregator.Store // nil: limits are not divided among regions
	keeper  *upstream.Keeper  // of the record of the region's reserve; nil: there is none
	consul  *membership       // nil: none
	changed []func()          // are called after each change
	from    *watch.Watcher    // nil: there is no rules file

	windows atomic.Pointer[[]reserve.Window] // of the limits with shares; nil: there are no rules yet
	regions atomic.Pointer[rule.Regions]     // that have shares, likewise
}

// loadSecrets puts the secrets of keys in force, if there are any.
func (t *Tier) loadSecrets() error {
	if t.cfg.KeySecrets == "" {
		return nil
	}
	w := secrets.Watch(t.cfg.KeySecrets, t.rules.service.SetSecrets, t.Log, t.Metrics)
	t.Watch(w)
	return w.Load()
}

// loadRules puts the rules file, or what Consul has, in force, or no rules where there is none.
func (t *Tier) loadRules() error {
	t.Metrics.GaugeFunc("weir_rules_revision", "Revision of the rules in force, as a file states it or weir apply prints it; 0: they have none.", func() float64 {
		revision, _ := t.rules.state()
		return float64(revision)
	})
	if t.cfg.Rules == "" {
		none, err := rulefile.Parse("no rules", []byte("rules: []\n"))
		if err != nil {
			return err
		}
		return t.rules.set(none)
	}
	if t.cfg.rulesInConsul() {
		return t.followRules()
	}
	t.rules.from = follow.New(t.cfg.Rules, t.rules.set, t.Log, t.Metrics)
	t.Watch(t.rules.from)
	return t.rules.from.Load()
}

// followRules takes the rules from Consul. Without any, this tier is not ready until they
// come: nobody has to start it again when the first rules are applied, or Consul is back.
func (t *Tier) followRules() error {
	waiting := follow.ErrNoRules.Error()
	stored := follow.NewStore(follow.StoreConfig{
		Agent: t.consul.agent, Datacenter: t.cfg.ConsulBy.Primary, Region: t.consul.replica.Region, Copy: t.cfg.rulesCopy(os.Getenv), Log: t.Log, Metrics: t.Metrics,
		Apply: func(set *rule.Set) error {
			err := t.rules.set(set)
			if err == nil {
				t.Ready.Allow(waiting)
			}
			return err
		},
	})
	t.rules.from, t.behind = stored.Watcher, append(t.behind, stored.Follow)
	t.Watch(stored.Watcher)
	err := stored.Load(context.Background())
	if errors.Is(err, follow.ErrNoRules) {
		t.Log.Error("not ready", "reason", err)
		t.Ready.Refuse(waiting)
		return nil
	}
	return err
}

// set puts rules in force. Rules that are refused change nothing.
func (r *rules) set(set *rule.Set) error {
	if r.alone {
		if err := refuseGlobal(set); err != nil {
			return err
		}
	}
	if err := r.service.SetRules(set); err != nil {
		return err
	}
	if r.divided != nil {
		r.divided.SetRegions(set.Regions())
	}
	windows, regions := windowsOf(set), set.Regions()
	r.windows.Store(&windows)
	r.regions.Store(&regions)
	for _, tell := range r.changed {
		tell()
	}
	r.consul.update()
	return nil
}

// refuseGlobal refuses rules that nobody would count for all regions.
func refuseGlobal(set *rule.Set) error {
	for i := range set.Len() {
		if r := set.Rule(i); r.Scope == rule.ScopeGlobal && r.Mode != rule.Off {
			return errors.New("rule " + r.Name + ": scope: global is counted by an aggregator, and this region has none; give --global HOST:PORT or --consul HOST:PORT, or write scope: region")
		}
	}
	return nil
}

// version is that of the rules in force, and their revision.
func (r *rules) version() (version string, revision uint64) { return r.service.RulesVersion() }

// revision is that of the rules in force.
func (r *rules) revision() uint64 {
	_, revision := r.version()
	return revision
}

// state is the number of the revision in force, and why newer rules are not.
func (r *rules) state() (revision uint64, problem string) {
	if r.from != nil {
		problem = r.from.Problem()
	}
	return rule.Number(r.revision()), problem
}

func (c *Config) checkRules() error {
	inConsul := c.rulesInConsul()
	return errors.Join(
		settings.Refuse(inConsul && c.Consul == "", "consul: is missing; rules: consul: needs its agent: give one, such as --consul 127.0.0.1:8500"),
		settings.Refuse(!inConsul && strings.HasPrefix(c.Rules, "consul:"), "rules: %q has something behind consul:; --consul-primary names the datacenter", c.Rules),
		settings.Refuse(c.RulesCopy == "", "rules_copy: is empty; write auto, off or the path of a file"),
		settings.Refuse(!inConsul && c.RulesCopy != "auto" && c.RulesCopy != "off", "rules_copy: is for rules in Consul; leave it out, or write rules: consul:"),
	)
}

// rulesInConsul reports whether the rules are in Consul and not in a file.
func (c *Config) rulesInConsul() bool { return c.Rules == "consul:" }

// rulesCopy is the path of the copy; empty: there is none.
func (c *Config) rulesCopy(env func(string) string) string {
	switch c.RulesCopy {
	case "off":
		return ""
	case "auto":
		return stateDir(env, "rules")
	}
	return c.RulesCopy
}
