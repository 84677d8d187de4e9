package regions

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/test/kit/stack"
)

// Action is something that is done to a world.
type Action struct {
	rule, region, limit string
	do                  func(*World, Action)
}

// actions are by what scripts have, where REGION, RULE and LIMIT are any.
var actions = map[string]func(*World, Action){
	"kill an aggregator":    func(w *World, _ Action) { w.busiest().Kill() },
	"kill the aggregators":  func(w *World, _ Action) { w.killAggregators() },
	"start the aggregators": func(w *World, _ Action) { w.startAggregators() },

	"cut REGION":            func(w *World, a Action) { w.Region(a.region).Links.each(cut) },
	"cut calls of REGION":   func(w *World, a Action) { w.Region(a.region).Links.each((*stack.Link).SwallowCalls) },
	"cut replies to REGION": func(w *World, a Action) { w.Region(a.region).Links.each((*stack.Link).Swallow) },
	"heal REGION":           func(w *World, a Action) { w.Region(a.region).Links.each((*stack.Link).Heal) },

	"kill redis of RULE in REGION": func(w *World, a Action) { w.Region(a.region).Redis.kill(a.rule, w.play) },
	"start redis in REGION":        func(w *World, a Action) { w.Region(a.region).Redis.start() },

	"apply limit LIMIT to RULE": func(w *World, a Action) { w.applyChanged(limited(w.rules, a.rule, a.limit)) },

	"kill the leader of consul in REGION": func(w *World, a Action) { w.Region(a.region).Consul.Leader().Kill() },
	"start consul in REGION":              func(w *World, a Action) { w.Region(a.region).startConsul() },
}

// readAction finds the action that the words are.
func readAction(words []string) (Action, error) {
	for form, do := range actions {
		a := Action{do: do}
		if a.fits(strings.Fields(form), words) {
			if a.region != "" {
				return a, isRegion(a.region)
			}
			return a, nil
		}
	}
	return Action{}, fmt.Errorf("nothing does %q", strings.Join(words, " "))
}

// fits reports whether the words are of a form, and reads what is any in it.
func (a *Action) fits(form, words []string) bool {
	if len(form) != len(words) {
		return false
	}
	for i, w := range form {
		switch w {
		case "REGION":
			a.region = words[i]
		case "RULE":
			a.rule = words[i]
		case "LIMIT":
			a.limit = words[i]
		case words[i]:
		default:
			return false
		}
	}
	return true
}

// Do does what the text of an action is, such as "cut eu", now.
func (w *World) Do(text string) error {
	a, err := readAction(strings.Fields(text))
	if err == nil {
		a.do(w, a)
	}
	return err
}
