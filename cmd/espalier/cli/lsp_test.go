package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestLSP speaks to the program over its standard input and output; the protocol has tests of its own.
func TestLSP(t *testing.T) {
	message := func(text string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text) }
	root := newRoot()
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetIn(strings.NewReader(message(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}`) +
		message(`{"jsonrpc":"2.0","id":2,"method":"shutdown"}`) + message(`{"jsonrpc":"2.0","method":"exit"}`)))
	root.SetArgs([]string{"lsp"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Error(err, errs.String())
	}
	if !strings.Contains(out.String(), `"hoverProvider":true`) || !strings.Contains(out.String(), `"id":2`) {
		t.Error(out.String())
	}
	if code, _, stderr := call(t.Context(), "lsp", "--secret-outputs", "Maybe"); code != exitUsage {
		t.Error(code, stderr)
	}
}
