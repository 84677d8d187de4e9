package bootstrap

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

var inAWS = map[string]string{"eu": "eu-central-1", "us": "us-east-1"}

// publish publishes and returns what was reported and printed.
func publish(t *testing.T, s *State) (lines []string, printed string) {
	t.Helper()
	var out strings.Builder
	if err := s.AWS(t.Context(), inAWS, &out, func(line string) { lines = append(lines, line) }); err != nil {
		t.Fatal(err)
	}
	return lines, out.String()
}

// Each role has its files as one secret in its region of AWS; Redis has the users. What is there stays.
func TestAWS(t *testing.T) {
	c := startCloud(t)
	c.slow = 1
	o := options(t)
	s, is := run(t, o, begin)
	_, printed := publish(t, s)
	for _, line := range []string{
		`  eu = { pop = "arn:aws:secretsmanager:eu-central-1/weir/eu/pop", consul = "arn:aws:secretsmanager:eu-central-1/weir/eu/consul", service = `,
		`  global = "arn:aws:secretsmanager:eu-central-1/weir/global"`, "redis_user_groups = {", `  us = "weir-us"`, `  global = "weir-global"`,
	} {
		if !strings.Contains(printed, line) {
			t.Errorf("printed\n%s\nwithout %s", printed, line)
		}
	}
	var files map[string]string
	if err := json.Unmarshal([]byte(c.secrets["us-east-1/weir/us/service"]), &files); err != nil || len(files) != 9 || files["key.pem"] != is["us/service/key.pem"] {
		t.Errorf("the secret of us has %v, %v", slices.Sorted(maps.Keys(files)), err)
	}
	if names := slices.Sorted(maps.Keys(c.secrets)); len(names) != 7 {
		t.Errorf("secrets: %v", names)
	}
	if !slices.Equal(c.users["us-east-1/weir-us"], []string{s.Redis["us"].Current}) || !slices.Equal(c.groups["eu-central-1/weir-global"], []string{"weir-global"}) {
		t.Errorf("users %v, groups %v", c.users, c.groups)
	}
	writes := c.writes
	if lines, again := publish(t, s); len(lines) > 0 || c.writes != writes || again != printed {
		t.Errorf("again: %v, %d writes", lines, c.writes-writes)
	}
	o.Rotate = "redis"
	s, _ = run(t, o, begin)
	lines, _ := publish(t, s)
	if want := s.Redis["eu"].all(); len(want) != 2 || !slices.Equal(c.users["eu-central-1/weir-eu"], want) || len(lines) != 6 {
		t.Errorf("rotated: %v, want %v; %v", c.users, want, lines)
	}
}

// A write that is refused, or the end of a run there, leaves nothing that the next run does not complete.
func TestAWSRefuses(t *testing.T) {
	want := startCloud(t)
	s, _ := run(t, options(t), begin)
	publish(t, s)
	for n := 1; n <= want.writes; n++ {
		c := startCloud(t)
		c.refuse = n
		err := s.AWS(t.Context(), inAWS, io.Discard, func(string) {})
		if err == nil || !strings.Contains(err.Error(), "no right to ") || !strings.Contains(err.Error(), "mend this and run again") {
			t.Errorf("write %d is refused: %v", n, err)
		}
		c.refuse = 0
		publish(t, s)
		if !maps.Equal(c.secrets, want.secrets) || !maps.EqualFunc(c.users, want.users, slices.Equal) || !maps.EqualFunc(c.groups, want.groups, slices.Equal) {
			t.Errorf("write %d was refused, and the next run left something else", n)
		}
	}
	for regions, message := range map[string]string{"eu": "--aws names no region of AWS for us", "eu us ap": "--aws has ap, which is not among the regions eu, us"} {
		in := map[string]string{}
		for _, r := range strings.Fields(regions) {
			in[r] = "eu-central-1"
		}
		if err := s.AWS(t.Context(), in, io.Discard, nil); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%v, want %s", err, message)
		}
	}
}
