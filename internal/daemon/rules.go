package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/follow"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/ruleset/versions/local"
	"github.com/weirlimit/weir/internal/service/secrets"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/internal/watch"
)

// rules is what a tier knows of its rules.
type rules struct {
	alone   bool             // nobody counts rules with scope: global
	keeper  *upstream.Keeper // of the record of the region's reserve; nil: there is none
	changed []func()         // are called after each change
	from    *watch.Watcher   // nil: there is no rules file
	store   *versions.Store  // keeps their versions; nil: they are in a file

	inForce atomic.Pointer[inForce] // never nil
}

// inForce is what follows from the rules in force. The zero value is that of no rules.
type inForce struct {
	windows []reserve.Window // of the limits of which regions have a share
	regions rule.Regions     // that have shares
	since   time.Time
}

// loadSecrets puts the secrets of keys in force, if there are any.
func (t *Tier) loadSecrets() error {
	if t.cfg.KeySecrets == "" {
		return nil
	}
	w := secrets.Watch(t.cfg.KeySecrets, t.Service.SetSecrets, t.Log, t.Metrics)
	t.Watch(w)
	return w.Load()
}

// loadRules puts the rules file, or what Consul has, in force, or no rules where there is none.
func (t *Tier) loadRules() error {
	t.Metrics.GaugeFunc("weir_rules_revision", "Revision of the rules in force, as a file states it or weir rules apply prints it; 0: they have none.", func() float64 {
		return float64(rule.Number(t.revision()))
	})
	if t.cfg.Rules == "" {
		none, err := rulefile.Parse("no rules", []byte("rules: []\n"))
		if err != nil {
			return err
		}
		return t.setRules(none)
	}
	if t.cfg.rulesInConsul() {
		t.rules.store = versions.New(t.consul.agent, t.cfg.ConsulBy.Primary, versions.Prefix)
		return t.followRules(follow.StoreConfig{
			Place: "consul:" + t.cfg.ConsulBy.Primary,
			Agent: t.consul.agent, Datacenter: t.cfg.ConsulBy.Primary, Region: t.consul.replica.Region, Copy: kept(t.cfg.RulesCopy, "rules"),
		})
	}
	if t.cfg.rulesInStore() {
		return t.keepRules()
	}
	t.rules.from = follow.New(t.cfg.Rules, t.setRules, t.Log, t.Metrics)
	t.Watch(t.rules.from)
	return t.rules.from.Load()
}

// keepRules takes the rules from a directory that keeps their versions, which one process at a time has. What makes this
// process not ready does not end it: its port for operators states why.
func (t *Tier) keepRules() error {
	if n := t.cfg.Replicas; n > 1 {
		t.Ready.Block(fmt.Sprintf("replicas: %d, but rules: store: keeps the rules on the disk of one replica, which the others do not see; run one replica, or write rules: consul: or name a rules file", n))
	}
	kept := local.New(t.cfg.rulesStore())
	t.rules.store = versions.On(kept)
	t.behind = append(t.behind, func(ctx context.Context) error {
		<-ctx.Done()
		return kept.Close()
	})
	return t.followRules(follow.StoreConfig{Place: "store:"})
}

// followRules takes the rules from where their versions are kept. Without any, this tier is not ready until they
// come: nobody has to start it again when the first rules are applied, or what keeps them is back.
func (t *Tier) followRules(c follow.StoreConfig) error {
	reject := standing(t.Ready)
	c.Store, c.Log, c.Metrics = t.rules.store, t.Log, t.Metrics
	c.Apply = func(set *rule.Set) error {
		err := t.setRules(set)
		if err == nil {
			reject("")
		}
		return err
	}
	stored := follow.NewStore(c)
	t.rules.from, t.behind = stored.Watcher, append(t.behind, stored.Follow)
	t.Watch(stored.Watcher)
	err := stored.Load(context.Background())
	if errors.Is(err, follow.ErrNoRules) {
		t.Log.Error("not ready", "reason", err)
		reject(err.Error())
		return nil
	}
	return err
}

// setRules puts rules in force. Rules that are rejected change nothing.
func (t *Tier) setRules(set *rule.Set) error {
	if t.rules.alone {
		if name := global(set); name != "" {
			return errors.New("rule " + name + ": scope: global is counted by an aggregator, and this region has none; give --aggregator HOST:PORT or --consul HOST:PORT, or write scope: region")
		}
	}
	if err := t.fits(set); err != nil {
		return err
	}
	if err := t.Service.SetRules(set); err != nil {
		return err
	}
	if t.divided != nil {
		t.divided.SetRegions(set.Regions())
	}
	t.rules.inForce.Store(&inForce{upstream.WindowsOf(set), set.Regions(), time.Now()})
	for _, tell := range t.rules.changed {
		tell()
	}
	t.consul.update()
	return nil
}

// fits is why the counters in memory cannot hold a key of a rule that is counted here; nil: they can. A key that has no
// room is decided by on_failure, so that its limit would not hold.
func (t *Tier) fits(set *rule.Set) error {
	memory := t.counters.memory
	for i := range set.Len() {
		of := set.Rule(i)
		if memory == nil || of.Mode == rule.Off || (of.Scope == rule.ScopeGlobal) != (t.divided != nil) {
			continue
		}
		for s := range of.Specs() {
			if need, room := s.LogBytes(), memory.KeyBytes(); need > room {
				return fmt.Errorf("rule %s: sliding_log of %d may need %d KiB for a key, and a key of counters in memory has %d KiB; write algorithm: sliding_window, raise --max-memory, or use --redis", of.Name, s.Count, need>>10, room>>10)
			}
		}
	}
	return nil
}

// regionNames are those of the regions that have shares.
func (r *rules) regionNames() (names []string) {
	for _, one := range r.inForce.Load().regions {
		names = append(names, one.Name)
	}
	return names
}

// global is the name of a rule that an aggregator counts; empty: there is none.
func global(set *rule.Set) string {
	for i := range set.Len() {
		if r := set.Rule(i); r.Scope == rule.ScopeGlobal && r.Mode != rule.Off {
			return r.Name
		}
	}
	return ""
}

// rulesVersion is that of the rules in force, and their revision.
func (t *Tier) rulesVersion() (version string, revision uint64) { return t.Service.RulesVersion() }

// revision is that of the rules in force.
func (t *Tier) revision() uint64 {
	_, revision := t.rulesVersion()
	return revision
}

// problem is why newer rules are not in force; empty: there are none.
func (r *rules) problem() string {
	if r.from == nil {
		return ""
	}
	return r.from.Problem()
}

func (c *Config) checkRules() error {
	inConsul := c.rulesInConsul()
	return errors.Join(
		settings.Reject(inConsul && c.Consul == "", "consul: is missing; rules: consul: needs its agent: give one, such as --consul 127.0.0.1:8500"),
		settings.Reject(!inConsul && strings.HasPrefix(c.Rules, "consul:"), "rules: %q has text after consul:; --consul-primary names the datacenter", c.Rules),
		settings.Reject(c.RulesCopy == "", "rules_copy: is empty; write auto, off or the path of a file"),
		settings.Reject(!c.rulesInStore() && strings.HasPrefix(c.Rules, "store:"), "rules: %q has text after store:; the versions are kept beside the state file", c.Rules),
		settings.Reject(!inConsul && c.RulesCopy != "auto" && c.RulesCopy != "off", "rules_copy: is for rules in Consul; leave it out, or write rules: consul:"),
	)
}

// rulesInConsul reports whether the rules are in Consul and not in a file.
func (c *Config) rulesInConsul() bool { return c.Rules == "consul:" }

// rulesInStore reports whether this process keeps the versions of the rules.
func (c *Config) rulesInStore() bool { return c.Rules == "store:" }

// rulesStore is the path of the directory with the versions of the rules: beside the state file.
func (c *Config) rulesStore() string {
	return filepath.Join(filepath.Dir(cmp.Or(c.stateFile(), kept("auto", "state"))), "rules.store")
}
