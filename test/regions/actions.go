package regions

import (
	"fmt"
	"strings"
)

// Action is something that is done to a world.
type Action struct {
	Text                string
	rule, region, limit string
	do                  func(*World, Action)
}

// actions are by what scripts have, where REGION, RULE and LIMIT are any.
var actions = map[string]func(*World, Action){
	"kill the aggregator":  func(w *World, _ Action) { w.busiest().Kill() },
	"start the aggregator": func(w *World, _ Action) { w.startAggregators() },

	"cut REGION":            func(w *World, a Action) { w.Region(a.region).Links.cut() },
	"cut calls of REGION":   func(w *World, a Action) { w.Region(a.region).Links.swallowCalls() },
	"cut replies to REGION": func(w *World, a Action) { w.Region(a.region).Links.swallow() },
	"heal REGION":           func(w *World, a Action) { w.Region(a.region).Links.heal() },

	"kill redis of RULE in REGION":         func(w *World, a Action) { w.Region(a.region).Redis.kill(a.rule) },
	"kill redis of the receipts in REGION": func(w *World, a Action) { w.Region(a.region).Redis.kill(receipts) },
	"start redis in REGION":                func(w *World, a Action) { w.Region(a.region).Redis.start() },

	"kill redis of RULE at the aggregator": func(w *World, a Action) { w.theirs().kill(a.rule) },
	"start redis at the aggregator":        func(w *World, _ Action) { w.theirs().start() },

	"apply limit LIMIT to RULE": func(w *World, a Action) { w.limit(a.rule, a.limit) },

	"kill the leader of consul in REGION": func(w *World, a Action) { w.Region(a.region).Consul.Leader().Kill() },
	"start consul in REGION":              func(w *World, a Action) { w.Region(a.region).startConsul() },
}

// readAction finds the action that the words are.
func readAction(words []string) (Action, error) {
	for form, do := range actions {
		a := Action{Text: strings.Join(words, " "), do: do}
		if a.fits(strings.Fields(form), words) {
			var err error
			if a.region != "" {
				err = isRegion(a.region)
			}
			return a, err
		}
	}
	return Action{}, fmt.Errorf("nothing does %q", strings.Join(words, " "))
}

// fits reports whether the words are of a form, and takes what is any in it.
func (a *Action) fits(form, words []string) bool {
	if len(form) != len(words) {
		return false
	}
	for i, w := range form {
		switch {
		case w == "REGION":
			a.region = words[i]
		case w == "RULE":
			a.rule = words[i]
		case w == "LIMIT":
			a.limit = words[i]
		case w != words[i]:
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

// CanDo reports what is wrong with the text of an action.
func CanDo(text string) error {
	_, err := readAction(strings.Fields(text))
	return err
}
