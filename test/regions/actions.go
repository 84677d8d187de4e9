package regions

import (
	"fmt"
	"regexp"

	"github.com/weirlimit/weir/test/kit/stack"
)

// oneOf is a region in the text of an action.
const oneOf = "(eu|us|ap)"

// actions are what is done to a world, by their text as a regular expression, whose groups are the arguments.
var actions = map[string]func(w *World, args []string){
	"kill an aggregator":    func(w *World, _ []string) { w.busiest().Kill() },
	"kill the aggregators":  func(w *World, _ []string) { w.killAggregators() },
	"start the aggregators": func(w *World, _ []string) { w.startAggregators() },

	"cut " + oneOf:            func(w *World, args []string) { w.Region(args[0]).Links.each(cut) },
	"cut calls of " + oneOf:   func(w *World, args []string) { w.Region(args[0]).Links.each((*stack.Link).SwallowCalls) },
	"cut replies to " + oneOf: func(w *World, args []string) { w.Region(args[0]).Links.each((*stack.Link).Swallow) },
	"heal " + oneOf:           func(w *World, args []string) { w.Region(args[0]).Links.each((*stack.Link).Heal) },

	`kill redis of (\S+) in ` + oneOf: func(w *World, args []string) { w.Region(args[1]).Redis.Kill(args[0], w.play) },
	"start redis in " + oneOf:         func(w *World, args []string) { w.Region(args[0]).Redis.start() },

	`apply limit (\S+) to (\S+)`: func(w *World, args []string) { w.setLimit(args[1], args[0]) },

	"kill the leader of consul in " + oneOf: func(w *World, args []string) { w.Region(args[0]).Consul.Leader().Kill() },
	"start consul in " + oneOf:              func(w *World, args []string) { w.Region(args[0]).startConsul() },
}

// readAction finds the action that a text is, such as "cut eu".
func readAction(text string) (do func(*World), err error) {
	for form, do := range actions {
		if m := regexp.MustCompile("^" + form + "$").FindStringSubmatch(text); m != nil {
			return func(w *World) { do(w, m[1:]) }, nil
		}
	}
	return nil, fmt.Errorf("nothing does %q", text)
}

// Do does what the text of an action is, now.
func (w *World) Do(text string) error {
	do, err := readAction(text)
	if err == nil {
		do(w)
	}
	return err
}
