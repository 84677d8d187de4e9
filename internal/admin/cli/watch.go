package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/admin/client"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/repeat"
)

const (
	// silentAfter is after how long who does not report counts as silent.
	silentAfter = 3 * time.Second
	// fullAt is how full a table counts as full, in percent.
	fullAt = 95
	// waitTime is how long a new version may take to be in force everywhere.
	waitTime = 15 * time.Second
	// lookEvery is the time between two looks.
	lookEvery = time.Second
)

// Status has the flags of the command that lists members.
type Status struct{ listing }

// Run lists all members, and fails unless all are well.
func (s *Status) Run(stdout io.Writer) error {
	return s.Use(func(ctx context.Context, c *client.Client) error {
		seen, err := look(ctx, c)
		if err != nil {
			return err
		}
		well := len(seen.Silent) == 0 && seen.InForce.Problem == ""
		var rows [][]any
		for i := range seen.Members {
			m := &seen.Members[i]
			wrong := problems(m, newest(seen))
			well = well && len(wrong) == 0
			rows = append(rows, []any{
				m.Kind, m.Region, m.Name, m.Workers, m.Version, rules(m.RulesRevision, m.RulesVersion), m.RulesVersion, ago(m.RulesAgeMs), ago(m.AgeMs), ago(m.SilentMs),
				fmt.Sprint(float64(m.ReservePerMille)/10, "%"), fmt.Sprint(m.Keys, "/", m.Places), m.Redis, m.Holder, strings.Join(wrong, "; "),
			})
		}
		if s.Output.Output != "json" {
			fmt.Fprintf(stdout, "%s; rules %s are in force\n", safe(seen.Of), rules(seen.InForce.Revision, seen.InForce.Version))
			if seen.InForce.Problem != "" {
				fmt.Fprintln(stdout, "newer rules are not in force:", safe(seen.InForce.Problem))
			}
			for _, name := range seen.Silent {
				fmt.Fprintf(stdout, "region %s has not been heard\n", safe(name))
			}
		}
		err = s.Print(stdout, seen, "kind region name +workers +version rules +rules_version +rules_since age +heard_ago reserve +keys +redis +holder problem", rows)
		if err == nil && !well {
			err = ErrUnwell
		}
		return err
	})
}

// look is the status, once everybody had the time to report.
func look(ctx context.Context, c *client.Client) (seen *v1.Status, err error) {
	_, err = c.Do(ctx, client.Call{Path: "/v1/status"}, &seen)
	return seen, err
}

// newest is the newest revision of rules that a member has.
func newest(s *v1.Status) uint64 {
	most := s.InForce.Revision
	for i := range s.Members {
		most = max(most, s.Members[i].RulesRevision)
	}
	return most
}

// problems are what is not well about a member, where others have rules of a revision.
func problems(m *v1.Member, revision uint64) (all []string) {
	say := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	say(m.SilentMs > uint64(silentAfter.Milliseconds()), "not heard for %s", ago(m.SilentMs))
	say(m.RulesVersion == "", "has no rules")
	say(m.RulesVersion != "" && m.RulesRevision < revision, "has rules %d, not %d", m.RulesRevision, revision)
	say(m.DegradedMs > 0, "the tier above has not answered for %s", ago(m.DegradedMs))
	say(m.Places > 0 && m.Keys*100 >= m.Places*fullAt, "its table is full")
	say(m.Redis != "" && m.Redis != "ok", "redis: %s", m.Redis)
	say(m.Error != "" && m.ErrorAgeMs == 0, "%s", m.Error)
	return all
}

// rules names rules: by their revision, if they have one.
func rules(revision uint64, version string) string {
	if revision == 0 {
		return safe(version)
	}
	return strconv.FormatUint(revision, 10)
}

// ago is a time in milliseconds, for people.
func ago(ms uint64) string {
	d := time.Duration(min(ms, 1<<40)) * time.Millisecond
	if d > time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// Wait returns when all members have rules of a revision, or a newer one, and else names those that have not.
func Wait(ctx context.Context, c *client.Client, revision uint64, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	for {
		seen, err := look(ctx, c)
		if err != nil {
			return fmt.Errorf("who has revision %d is unknown: %w", revision, err)
		}
		var behind []string
		for _, name := range seen.Silent {
			behind = append(behind, "region "+name+": not heard")
		}
		for i := range seen.Members {
			if m := &seen.Members[i]; m.RulesRevision < revision || m.SilentMs > uint64(silentAfter.Milliseconds()) {
				behind = append(behind, fmt.Sprintf("%s %s %s: %s", m.Kind, m.Region, m.Name, strings.Join(problems(m, revision), "; ")))
			}
		}
		if len(behind) == 0 {
			_, err = fmt.Fprintf(out, "it is in force at all members of %s: %d\n", safe(seen.Of), len(seen.Members))
			return err
		}
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < 2*lookEvery || !repeat.Sleep(ctx, lookEvery) {
			for _, one := range behind {
				fmt.Fprintln(out, "not in force:", safe(one))
			}
			return ErrUnwell
		}
	}
}

// Top has the flags of the command that shows what comes most.
type Top struct {
	listing
	By      string `enum:"key,denied,rule" default:"key" help:"What to count: keys, keys that are refused, or rules: key, denied or rule."`
	Limit   int    `default:"20" help:"Most rows, 1 to 512."`
	EachPop bool   `name:"each-pop" help:"Count each PoP apart; of all regions each region."`
	Once    bool   `help:"Print it once, as is done where the output is no terminal."`
}

// Run shows what comes most, on a terminal again and again.
func (t *Top) Run(stdout io.Writer) error {
	file, ok := stdout.(*os.File)
	if ok && !t.Once && t.Output.Output != "json" {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return t.follow(forever, func(ctx context.Context, c *client.Client) error {
				for {
					page := bytes.NewBufferString("\x1b[H\x1b[2J") // clears the screen
					if err := t.print(ctx, c, page); err != nil {
						return err
					}
					if _, err := page.WriteTo(stdout); err != nil || !repeat.Sleep(ctx, lookEvery) {
						return err
					}
				}
			})
		}
	}
	return t.Use(func(ctx context.Context, c *client.Client) error { return t.print(ctx, c, stdout) })
}

// forever is longer than anybody looks.
const forever = 30 * 24 * time.Hour

func (t *Top) print(ctx context.Context, c *client.Client, out io.Writer) error {
	query := url.Values{"by": {t.By}, "limit": {strconv.Itoa(t.Limit)}, "each_pop": {strconv.FormatBool(t.EachPop)}}
	return showBy(ctx, c, &t.Output, out, client.Call{Path: "/v1/top?" + query.Encode()}, func(top *v1.Top) (head string, rows [][]any) {
		if t.By == "rule" {
			return usesHead, uses(top.Rules)
		}
		for _, k := range top.Keys {
			rows = append(rows, []any{k.Rule, k.Override, k.Key, k.From, rate(k.PerSecond), rate(k.Over)})
		}
		return "rule override key from per_second +at_most_too_large_by", rows
	})
}

const usesHead = "rule used admitted/s denied/s +matched +no_key +admitted +denied +would_deny hint"

func uses(all []v1.Use) (rows [][]any) {
	for _, u := range all {
		used := "-"
		if u.Used > 0 {
			used = fmt.Sprintf("%.0f%%", u.Used*100)
		}
		rows = append(rows, []any{u.Rule, used, rate(u.AdmittedPerSecond), rate(u.DeniedPerSecond), u.Matched, u.NoKey, u.Admitted, u.Denied, u.ShadowDenied, u.Hint})
	}
	return rows
}

func rate(perSecond float64) string { return strconv.FormatFloat(perSecond, 'f', 1, 64) }

// Tap has the flags of the command that prints single decisions.
type Tap struct {
	Installation `embed:""`
	Rule         string        `help:"Only of this rule."`
	Key          string        `help:"Only of this key, its parts joined by |."`
	Outcome      string        `enum:",admitted,denied,unavailable,would-deny" default:"" help:"Only these: admitted, denied, unavailable or would-deny."`
	PerSecond    int           `default:"10" help:"Most decisions a second, 1 to 1000; of more chance picks."`
	For          time.Duration `default:"1m" help:"For how long."`
	Output       string        `short:"o" enum:"table,json" default:"table" help:"How to print: as lines, or as a line of json each for programs."`
}

// Run prints decisions as they are made.
func (t *Tap) Run(stdout io.Writer) error {
	query := url.Values{"status": {"false"}, "tap": {"true"}, "per_second": {strconv.Itoa(t.PerSecond)}}
	for name, value := range map[string]string{"rule": t.Rule, "key": t.Key, "outcome": t.Outcome} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return t.follow(t.For, func(ctx context.Context, c *client.Client) error {
		err := c.Events(ctx, "/v1/stream?"+query.Encode(), func(event string, data []byte) error { return t.print(stdout, event, data) })
		if ctx.Err() != nil { // the time is over
			return nil
		}
		return err
	})
}

func (t *Tap) print(out io.Writer, event string, data []byte) error {
	switch event {
	case v1.EventProblem:
		p := new(v1.Problem)
		if err := json.Unmarshal(data, p); err != nil {
			return err
		}
		return p
	case v1.EventDecisions:
		var found v1.Decisions
		if err := json.Unmarshal(data, &found); err != nil {
			return err
		}
		for i := range found.Items {
			if err := t.line(out, &found.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tap) line(out io.Writer, d *v1.Decision) error {
	if t.Output == "json" {
		return encode(out, d, "")
	}
	cells := []string{d.When.Format("15:04:05.000"), fmt.Sprintf("%-11s", d.Outcome), d.From, d.Rule, d.Key}
	if d.Override != "" {
		cells = append(cells, "override "+d.Override)
	}
	if d.RetryAfterMs > 0 {
		cells = append(cells, "retry after "+ago(d.RetryAfterMs))
	} else {
		cells = append(cells, fmt.Sprint("remaining ", d.Remaining))
	}
	for i, cell := range cells {
		cells[i] = safe(cell)
	}
	_, err := fmt.Fprintln(out, strings.Join(slices.DeleteFunc(cells, func(s string) bool { return s == "" }), "  "))
	return err
}
