package cli

import "github.com/fatih/color"

// Codes of colours. They are of one length, so that they leave the columns of a table as they are.
const plain, bold, red, green, yellow = "\x1b[00m", "\x1b[01m", "\x1b[31m", "\x1b[32m", "\x1b[33m"

// colours are those of columns, by their titles, and of words.
var colours = map[string]string{"problem": red, "last error": red, "reason": yellow, "denied": red, "unavailable": red, "would-deny": yellow, "admitted": green}

// paint colours a text, if standard output is a terminal and NO_COLOR is not set.
func paint(code, text string) string {
	if color.NoColor {
		return text
	}
	return code + text + plain
}

// clear empties a terminal; nothing else has anything to empty.
func clear() string {
	if color.NoColor {
		return ""
	}
	return "\x1b[H\x1b[2J"
}
