// Package browser drives a headless Chromium, as a person would: by what is written on buttons and beside fields. What a page
// must not do, it notes: errors of its console, and requests that leave its origin.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long something may take to be seen.
const patience = 40 * time.Second

// Browser is one window. It is for one goroutine.
type Browser struct {
	t      testing.TB
	ctx    context.Context
	origin string

	mu  sync.Mutex
	bad []string
}

// Start starts a Chromium for pages of an origin. Without one the test is skipped.
func Start(t testing.TB, origin string) *Browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is missing: run make setup")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	b := &Browser{t: t, origin: origin}
	b.ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Do(b.ctx); err != nil {
		t.Fatalf("chromium: %v", err)
	}
	if err := chromedp.Listen(b.ctx, b.hear); err != nil {
		t.Fatalf("chromium: %v", err)
	}
	messages := chromedp.Console(b.ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return // the test has ended
			}
			if m.IsException() || m.Type == "error" || m.Type == "warning" {
				b.note("console: " + m.String() + " " + m.URL)
			}
		}
	}()
	return b
}

// hear notes what a page must not do.
func (b *Browser) hear(event any) {
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		b.note("dialog: " + e.Message)
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, b.origin) && !strings.HasPrefix(url, "data:") {
			b.note("request to " + url)
		}
	}
}

func (b *Browser) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad = append(b.bad, what)
}

// Bad is what the page did that it must not do, since it was asked before.
func (b *Browser) Bad() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	bad := b.bad
	b.bad = nil
	return bad
}

func run[T any](b *Browser, what string, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	return value
}

// Eval is the value of a script, which may be a promise.
func Eval[T any](b *Browser, script string) T {
	b.t.Helper()
	return run(b, script, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// Open opens a page of the origin.
func (b *Browser) Open(path string) {
	b.t.Helper()
	run(b, "open "+path, chromedp.Navigate(b.origin+path))
}

// See waits until the page has a text.
func (b *Browser) See(text string) {
	b.t.Helper()
	b.await("see "+text, fmt.Sprintf(`!!document.body?.innerText.includes(%s)`, quoted(text)))
}

// Lose waits until the page has not a text.
func (b *Browser) Lose(text string) {
	b.t.Helper()
	b.await("no longer see "+text, fmt.Sprintf(`!!document.body && !document.body.innerText.includes(%s)`, quoted(text)))
}

// Ready waits until a script has a value.
func (b *Browser) Ready(script string) {
	b.t.Helper()
	b.await("find "+script, "!!("+script+")")
}

// await waits until a script is true. While a page is loaded anew no script is.
func (b *Browser) await(what, script string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise))
		if ok && err == nil {
			return
		}
		if ctx.Err() != nil {
			b.t.Fatalf("could not %s (%v); the page shows\n%s\n%v", what, err, Eval[string](b, "document.body.innerText"), b.Bad())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Click clicks the button or link with a text, the first one that can be clicked; in a dialog if one is open.
func (b *Browser) Click(text string) {
	b.t.Helper()
	b.await("click "+text, fmt.Sprintf(`(() => {
		const at = [...document.querySelectorAll("dialog[open]")].pop() ?? document
		const one = [...at.querySelectorAll("button, a")].find(e => e.innerText.trim() === %s && !e.disabled)
		one?.click()
		return !!one
	})()`, quoted(text)))
}

// Fill types into the field with a label.
func (b *Browser) Fill(label, text string) {
	b.t.Helper()
	b.await("fill "+label, fmt.Sprintf(`(() => {
		const at = [...document.querySelectorAll("dialog[open]")].pop() ?? document
		const name = [...at.querySelectorAll("label")].find(e => e.innerText.trim() === %s)
		const field = name && document.getElementById(name.htmlFor)
		if (!field) return false
		field.focus()
		Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, %s)
		field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", { bubbles: true }))
		return true
	})()`, quoted(label), quoted(text)))
}

// Press presses keys, one after the other; a page may keep a key from writing its character.
func (b *Browser) Press(keys string) {
	b.t.Helper()
	for _, r := range keys {
		b.key(r, true, 0)
	}
}

// Shortcut presses a key while Ctrl is held.
func (b *Browser) Shortcut(key rune) {
	b.t.Helper()
	b.key(key, false, int64(chromedp.ModifierCtrl))
}

func (b *Browser) key(r rune, writes bool, held int64) {
	b.t.Helper()
	for _, k := range kb.Encode(r) {
		switch k.Modifiers |= held; {
		case k.Type == kb.KeyChar:
			continue // of the key that goes down
		case k.Type == kb.KeyDown && writes:
			k.Text = string(r)
		}
		run(b, "press "+string(r), func(ctx context.Context, t *chromedp.Target) (cdp.Empty, error) {
			return cdp.Call(ctx, t, input.DispatchKeyEvent, *k)
		})
	}
}

// Size sets the size of the window, and whether it is dark.
func (b *Browser) Size(width, height int64, dark bool) {
	b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[dark]
	run(b, "size", chromedp.EmulateViewport(width, height))
	run(b, "scheme", func(ctx context.Context, t *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	})
}

// Picture is what the window shows, as PNG.
func (b *Browser) Picture() []byte {
	b.t.Helper()
	return run(b, "picture", chromedp.CaptureScreenshot())
}

// Violations are those that axe finds: what people who use a keyboard or a screen reader stumble over. axe is its script.
func (b *Browser) Violations(axe string) []string {
	b.t.Helper()
	Eval[chromedp.Void](b, axe)
	return Eval[[]string](b, `axe.run(document, { resultTypes: ["violations"] }).then(r =>
		r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + v.help + ": " + n.html)))`)
}

func quoted(text string) string {
	out, _ := json.Marshal(text) // a text always can be
	return string(out)
}
