package bootstrap

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

var inAWS = map[string]string{"eu": "eu-central-1", "us": "us-east-1"}

// publish publishes and returns what was reported and printed.
func publish(t *testing.T, s *State) (lines []string, printed string) {
	t.Helper()
	var out strings.Builder
	fatal.If(t, s.AWS(t.Context(), inAWS, &out, func(line string) { lines = append(lines, line) }))
	return lines, out.String()
}

// Each role has its files as one secret in its region of AWS; Redis has the users. What is there stays.
func TestAWS(t *testing.T) {
	c := startCloud(t)
	c.slow = true
	o := options(t)
	s, is := run(t, o, begin)
	_, printed := publish(t, s)
	for _, line := range []string{
		`  eu = { pop = "arn:aws:secretsmanager:eu-central-1/weir/eu/pop", consul = "arn:aws:secretsmanager:eu-central-1/weir/eu/consul", service = `,
		`  aggregator = "arn:aws:secretsmanager:eu-central-1/weir/aggregator"`, "redis_user_groups = {", `  us = "weir-us"`, `  aggregator = "weir-aggregator"`,
	} {
		if !strings.Contains(printed, line) {
			t.Errorf("printed\n%s\nwithout %s", printed, line)
		}
	}
	var files map[string]string
	if err := json.Unmarshal([]byte(c.secrets["us-east-1/weir/us/service"]), &files); err != nil || len(files) != 10 || files["key.pem"] != is["us/service/key.pem"] {
		t.Errorf("the secret of us has %v, %v", slices.Sorted(maps.Keys(files)), err)
	}
	if names := slices.Sorted(maps.Keys(c.secrets)); len(names) != 7 {
		t.Errorf("secrets: %v", names)
	}
	if !slices.Equal(c.users["us-east-1/weir-us"], []string{s.Redis["us"].Current}) || !slices.Equal(c.groups["eu-central-1/weir-aggregator"], []string{"weir-aggregator"}) {
		t.Errorf("users %v, groups %v", c.users, c.groups)
	}
	writes := c.writes
	if lines, again := publish(t, s); len(lines) > 0 || c.writes != writes || again != printed {
		t.Errorf("again: %v, %d writes", lines, c.writes-writes)
	}
	o.Rotate = "redis"
	s, _ = run(t, o, begin)
	lines, _ := publish(t, s)
	page := fatal.Get(os.ReadFile("../../docs/bootstrap.md"))(t)
	for _, deploy := range []string{
		"aws ecs update-service --region eu-central-1 --cluster weir-eu-weir-regional --service weir-regional --force-new-deployment",
		"aws ecs update-service --region eu-central-1 --cluster weir-eu-weir-global --service weir-global --force-new-deployment",
	} {
		if !strings.Contains(strings.Join(lines, "\n"), "changed; tasks get it with "+deploy) || !strings.Contains(string(page), "    "+deploy+"\n") {
			t.Errorf("%s is not in docs/bootstrap.md, or in %v", deploy, lines)
		}
	}
	if want := s.Redis["eu"].all(); len(want) != 2 || !slices.Equal(c.users["eu-central-1/weir-eu"], want) || len(lines) != 6 {
		t.Errorf("rotated: %v, want %v; %v", c.users, want, lines)
	}
}

// A write that is rejected, or the end of a run there, leaves nothing that the next run does not complete.
func TestAWSRejects(t *testing.T) {
	want := startCloud(t)
	s, _ := run(t, options(t), begin)
	publish(t, s)
	for n := 1; n <= want.writes; n++ {
		c := startCloud(t)
		c.reject = n
		err := s.AWS(t.Context(), inAWS, io.Discard, func(string) {})
		if err == nil || !strings.Contains(err.Error(), "no right to ") || !strings.Contains(err.Error(), "fix this and run again") {
			t.Errorf("write %d is rejected: %v", n, err)
		}
		c.reject, c.last = 0, [3]string{}
		publish(t, s)
		if !maps.Equal(c.secrets, want.secrets) || !maps.EqualFunc(c.users, want.users, slices.Equal) || !maps.EqualFunc(c.groups, want.groups, slices.Equal) {
			t.Errorf("write %d was rejected, and the next run left something else", n)
		}
	}
	for message, in := range map[string]map[string]string{
		"--aws names no region of AWS for eu, the home":       {"us": "us-east-1"},
		"--aws has ap, which is not among the regions eu, us": {"eu": "eu-central-1", "us": "us-east-1", "ap": "ap-southeast-1"},
	} {
		if err := s.AWS(t.Context(), in, io.Discard, nil); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%v, want %s", err, message)
		}
	}
}

// A region of AWS that is down gets nothing, and the others all of theirs; so it is for one that is not named.
func TestAWSDown(t *testing.T) {
	o := options(t)
	for _, down := range []string{"eu-central-1", "us-east-1", ""} {
		c := startCloud(t)
		c.down = down
		s, _ := run(t, o, begin)
		in, want := maps.Clone(inAWS), map[string]int{"eu-central-1": 3, "us-east-1": 4, "": 4}[down] // the home has one more
		if down == "" {
			delete(in, "us")
		}
		var out strings.Builder
		lines := []string{}
		err := s.AWS(t.Context(), in, &out, func(line string) { lines = append(lines, line) })
		if down != "" && (err == nil || strings.Count(err.Error(), down+" is down") != 1 || out.Len() > 0) {
			t.Errorf("%s is down: %v, printed %s", down, err, &out)
		}
		if down == "" && (err != nil || strings.Contains(out.String(), "  us = ") || !slices.Contains(lines, "us was not published: --aws does not name it")) {
			t.Errorf("us is not named: %v, %v, printed %s", err, lines, &out)
		}
		if len(c.secrets) != want {
			t.Errorf("%q is down, and there are %v", down, slices.Sorted(maps.Keys(c.secrets)))
		}
	}
}

// A secret of another directory is not replaced, and nothing is written beside it. One of this directory is,
// also when its authority had expired.
func TestAWSForeign(t *testing.T) {
	c := startCloud(t)
	first, _ := run(t, options(t), begin)
	publish(t, first)
	delete(c.secrets, "eu-central-1/weir/aggregator")
	before, writes := maps.Clone(c.secrets), c.writes
	o := options(t)
	second, _ := run(t, o, begin)
	err := second.AWS(t.Context(), inAWS, io.Discard, func(string) {})
	if want := "delete-secret --region eu-central-1 --secret-id weir/eu/pop"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if c.writes != writes || !maps.Equal(c.secrets, before) {
		t.Error("secrets of another directory were changed")
	}
	clear(c.secrets)
	clear(c.users)
	publish(t, second)
	o.Rotate = "authority"
	for range 2 {
		second, _ = run(t, o, begin)
		publish(t, second)
	}
	second, _ = run(t, o, begin.Add(authorityLife))
	publish(t, second)
}
