package regions

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/stack"
)

// Action is something that is done to a world.
type Action struct {
	Text                string
	form                string // the words of the action, with REGION in place of eu
	ends                string // the form of the action that ends the outage of this one; "": it makes none
	rule, region, limit string
	trip                time.Duration
	lost                float64 // share of the calls, 0 to 1
	weights             map[string]int
	do                  func(*World, Action)
}

// deed is what an action does.
type deed struct {
	do func(*World, Action)
	// ends is the action that ends an outage, which this one begins: of its region, or of all if it has none.
	ends string
}

// The actions that end outages.
const (
	heal       = "heal REGION"
	start      = "start the aggregator"
	startRedis = "start redis at the aggregator"
)

// actions are by what scripts have, where REGION, RULE, LIMIT, TIME, PERCENT and WEIGHTS are any.
var actions = map[string]deed{
	"kill the aggregator": {func(w *World, _ Action) { w.busiest().Kill() }, start},
	start:                 {func(w *World, _ Action) { w.startAggregators() }, ""},

	"cut REGION":                      {func(w *World, a Action) { w.Region(a.region).Links.each(cut) }, heal},
	"cut calls of REGION":             {func(w *World, a Action) { w.Region(a.region).Links.each((*stack.Link).SwallowCalls) }, heal},
	"cut replies to REGION":           {func(w *World, a Action) { w.Region(a.region).Links.each((*stack.Link).Swallow) }, heal},
	"slow REGION to TIME":             {func(w *World, a Action) { w.Region(a.region).Links.each(func(l *stack.Link) { l.Slow(a.trip) }) }, heal},
	"lose PERCENT of calls of REGION": {func(w *World, a Action) { w.Region(a.region).Links.each(func(l *stack.Link) { l.Lose(a.lost) }) }, heal},
	heal:                              {func(w *World, a Action) { w.Region(a.region).Links.each((*stack.Link).Heal) }, ""},

	"kill redis of RULE in REGION":       {func(w *World, a Action) { w.Region(a.region).Redis.kill(a.rule, w.play) }, ""},
	"kill redis of the record in REGION": {func(w *World, a Action) { w.Region(a.region).Redis.kill(record) }, ""},
	"start redis in REGION":              {func(w *World, a Action) { w.Region(a.region).Redis.start() }, ""},

	"kill redis of RULE at the aggregator": {func(w *World, a Action) { w.theirs().kill(a.rule, w.play) }, startRedis},
	"kill all redis at the aggregator":     {func(w *World, _ Action) { w.theirs().killAll() }, startRedis},
	startRedis:                             {func(w *World, _ Action) { w.theirs().start() }, ""},

	"apply limit LIMIT to RULE": {func(w *World, a Action) { w.applyChanged(limited(w.rules, a.rule, a.limit)) }, ""},
	"apply regions WEIGHTS":     {func(w *World, a Action) { w.applyChanged(weighted(w.rules, a.weights)) }, ""},

	"kill the leader of consul in REGION": {func(w *World, a Action) { w.Region(a.region).Consul.Leader().Kill() }, ""},
	"start consul in REGION":              {func(w *World, a Action) { w.Region(a.region).startConsul() }, ""},
}

// readAction finds the action that the words are.
func readAction(words []string) (Action, error) {
	text := strings.Join(words, " ")
	for form, d := range actions {
		a := Action{Text: text, form: form, ends: d.ends, do: d.do}
		if found, err := a.fits(strings.Fields(form), words); found {
			return a, err
		}
	}
	return Action{}, fmt.Errorf("nothing does %q", text)
}

// fits reports whether the words are of a form, and reads what is any in it.
func (a *Action) fits(form, words []string) (fits bool, err error) {
	if form[len(form)-1] == "WEIGHTS" && len(words) >= len(form) {
		last := len(form) - 1
		words = append(words[:last:last], strings.Join(words[last:], " "))
	}
	if len(form) != len(words) {
		return false, nil
	}
	for i, w := range form {
		if placeholder := w == strings.ToUpper(w); !placeholder && w != words[i] {
			return false, nil
		}
	}
	for i, w := range form {
		if err == nil {
			err = a.read(w, words[i])
		}
	}
	return true, err
}

// read reads what a word of a form stands for.
func (a *Action) read(form, word string) (err error) {
	switch form {
	case "REGION":
		a.region, err = word, isRegion(word)
	case "RULE":
		a.rule = word
	case "LIMIT":
		a.limit = word
	case "TIME":
		a.trip, err = readTime(word)
	case "PERCENT":
		a.lost, err = Percent.value(word)
		if a.lost /= 100; err == nil && (a.lost < 0 || a.lost > 1) {
			err = fmt.Errorf("%s is not 0%% to 100%%", word)
		}
	case "WEIGHTS":
		a.weights, err = readWeights(word)
	}
	return err
}

// concerns reports whether an action is done to a region, or to all.
func (a *Action) concerns(region string) bool { return a.region == "" || a.region == region }

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
