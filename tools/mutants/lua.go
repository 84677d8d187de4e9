package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	scripts = "internal/redis/script"

	// mostScripts is the size of the sample of the scripts: each of their mutants costs a build of the tests.
	mostScripts = 60
)

var (
	comparison = regexp.MustCompile(` (==|~=|<=|>=|<|>) `)
	statement  = regexp.MustCompile(`^[a-z][\w.]*(, [\w.]+)* ?[=(\[]`)
	keyword    = regexp.MustCompile(`^(local|return|if|elseif|else|end|for|while|function)\b`)
	inverse    = map[string]string{"==": "~=", "~=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
	moved      = map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
)

// luaSubject has the mutants of the scripts, which the package embeds; its tests are built for each.
func luaSubject(dir, folder string) (subject, error) {
	where, err := filepath.Abs(dir)
	if err != nil {
		return subject{}, err
	}
	files, err := filepath.Glob(filepath.Join(where, "lua", "*.lua"))
	if err != nil {
		return subject{}, err
	}
	var s subject
	changed := [][2]string{{}} // by id: the file, and its text then
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return subject{}, err
		}
		lines := strings.SplitAfter(string(text), "\n")
		for i := range lines {
			for _, c := range changes(lines, i) {
				s.mutants = append(s.mutants, mutant{len(changed), fmt.Sprintf("%s:%d", filepath.Base(file), i+1), c.what})
				changed = append(changed, [2]string{file, strings.Join(lines[:i], "") + c.line + strings.Join(lines[i+1:], "")})
			}
		}
	}
	s.run = func(id int, limit time.Duration) bool {
		args := []string{"test", "-short", "-count=1", "-vet=off", "-failfast", "-timeout=" + limit.String()}
		if id > 0 {
			own := filepath.Join(folder, fmt.Sprint(id))
			text := filepath.Join(own, "mutant.lua")
			if os.Mkdir(own, 0o700) != nil || os.WriteFile(text, []byte(changed[id][1]), 0o600) != nil {
				return true // counts as one that lived
			}
			overlay, err := overlayOf(own, map[string]string{changed[id][0]: text})
			if err != nil {
				return true
			}
			args = append(args, "-overlay="+overlay)
		}
		return exec.Command("go", append(args, "./"+dir)...).Run() == nil // #nosec G204
	}
	return s, nil
}

// luaChange is what is done to a line, and the line then.
type luaChange struct{ what, line string }

// changes are the mutants of line i. A statement is dropped only where it is the whole line.
func changes(lines []string, i int) (all []luaChange) {
	code, _, _ := strings.Cut(lines[i], "--")
	for _, at := range comparison.FindAllStringSubmatchIndex(code, -1) {
		start, end := at[2], at[3]
		operator := lines[i][start:end]
		all = append(all, luaChange{"negated " + operator, lines[i][:start] + inverse[operator] + lines[i][end:]})
		if other := moved[operator]; other != "" {
			all = append(all, luaChange{"bound of " + operator, lines[i][:start] + other + lines[i][end:]})
		}
	}
	code = strings.TrimSpace(code)
	if statement.MatchString(code) && !keyword.MatchString(code) && !continues(lines, i) {
		all = append(all, luaChange{"dropped", "\n"})
	}
	return all
}

// continues reports whether line i is a part of a longer expression.
func continues(lines []string, i int) bool {
	line := strings.TrimSpace(lines[i])
	if strings.Count(line, "(") != strings.Count(line, ")") || hasAny(strings.HasSuffix, line, "=", "..", ",", "+") {
		return true
	}
	before, after := "", ""
	if i > 0 {
		before = strings.TrimSpace(lines[i-1])
	}
	if i+1 < len(lines) {
		after = strings.TrimSpace(lines[i+1])
	}
	return hasAny(strings.HasPrefix, after, "..", "and ", "or ", "+ ", "- ") || hasAny(strings.HasSuffix, before, "(", ",", "=", "..")
}

func hasAny(has func(s, part string) bool, s string, parts ...string) bool {
	for _, part := range parts {
		if has(s, part) {
			return true
		}
	}
	return false
}
