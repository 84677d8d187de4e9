package daemon

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/follow"
	"github.com/weirlimit/weir/internal/settings"
)

// followRules takes the rules from Consul. Without any, this tier is not ready until they
// come: nobody has to start it again when the first rules are applied, or Consul is back.
func (t *Tier) followRules() error {
	waiting := follow.ErrNoRules.Error()
	t.stored = follow.NewStore(follow.StoreConfig{
		Agent: t.consul.agent, Datacenter: t.cfg.ConsulBy.Primary, Copy: t.cfg.rulesCopy(os.Getenv), Log: t.Log, Metrics: t.Metrics,
		Apply: func(set *rule.Set) error {
			err := t.setRules(set)
			if err == nil {
				t.ready.Allow(waiting)
			}
			return err
		},
	})
	t.rules = append(t.rules, t.stored.Watcher)
	err := t.stored.Load(context.Background())
	if errors.Is(err, follow.ErrNoRules) {
		t.Log.Error("not ready", "reason", err)
		t.ready.Refuse(waiting)
		return nil
	}
	return err
}

// rulesState is the number of the revision in force, and why newer rules are not.
func (t *Tier) rulesState() (revision uint64, problem string) {
	for _, w := range t.rules {
		problem = w.Problem()
	}
	_, revision = t.Service.RulesVersion()
	return rule.Number(revision), problem
}

// setRules puts rules in force. Rules that are refused change nothing.
func (t *Tier) setRules(set *rule.Set) error {
	if t.alone {
		if err := refuseGlobal(set); err != nil {
			return err
		}
	}
	if err := t.Service.SetRules(set); err != nil {
		return err
	}
	if t.store.divided != nil {
		t.store.divided.SetRegions(set.Regions())
	}
	windows, regions := windowsOf(set), set.Regions()
	t.windows.Store(&windows)
	t.regions.Store(&regions)
	for _, e := range t.extensions {
		e.RulesChanged()
	}
	t.consul.update()
	return nil
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
