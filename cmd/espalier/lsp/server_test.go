package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/espalier-dev/espalier/internal/authoring/language"
)

const siteText = `apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: site}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Site
    spec:
      cidr: string
  resources:
  - id: network
    template:
      apiVersion: kro.run/v1alpha1
      kind: Network
      metadata: {name: "${schema.metadata.name}"}
      spec:
        cidr: 😀 ${schema.spec.cidr}
`

const networkText = `apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: network}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Network
    spec:
      cidr: string
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}"}
`

// client is an editor at the other end of two pipes.
type client struct {
	t        *testing.T
	in       *io.PipeWriter
	ids      int
	messages chan message
	ended    chan error
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

type pipes struct {
	io.Reader
	io.Writer
	close func() error
}

func (p pipes) Close() error { return p.close() }

// start starts a server. It must run in a synctest bubble, in which the quiet time takes no time.
func start(t *testing.T) *client {
	t.Helper()
	return startUntil(t.Context(), t)
}

// startUntil starts a server that a context ends.
func startUntil(ctx context.Context, t *testing.T) *client {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	c := &client{t: t, in: toServer, messages: make(chan message, 100), ended: make(chan error, 1)}
	go func() {
		c.ended <- Serve(ctx, pipes{in, out, func() error { return errors.Join(in.Close(), out.Close()) }}, Options{Version: "v0", Log: io.Discard})
	}()
	go func() {
		r := bufio.NewReader(fromServer)
		for {
			var m message
			if err := (codec{}).ReadObject(r, &m); err != nil {
				close(c.messages)
				return
			}
			c.messages <- m
		}
	}()
	return c
}

func (c *client) send(v map[string]any) {
	c.t.Helper()
	v["jsonrpc"] = "2.0"
	if err := (codec{}).WriteObject(c.in, v); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) notify(method string, params any) {
	c.t.Helper()
	c.send(map[string]any{"method": method, "params": params})
}

// next returns the next message with a method, or the reply to a request.
func (c *client) next(method string, id int) message {
	c.t.Helper()
	for m := range c.messages {
		if m.Method == method && (method != "" || m.ID == id) {
			return m
		}
	}
	c.t.Fatalf("the server ended before %q, %d", method, id)
	return message{}
}

// request sends a request and returns the reply.
func (c *client) request(method string, params any) message {
	c.t.Helper()
	c.ids++
	c.send(map[string]any{"id": c.ids, "method": method, "params": params})
	return c.next("", c.ids)
}

func (c *client) initialize(folder string) message {
	c.t.Helper()
	reply := c.request("initialize", map[string]any{
		"processId": nil, "rootUri": uriOf(folder), "capabilities": map[string]any{"workspace": map[string]any{"didChangeWatchedFiles": map[string]any{"dynamicRegistration": true}}},
	})
	c.notify("initialized", map[string]any{})
	if m := c.next("client/registerCapability", 0); !strings.Contains(string(m.Params), "didChangeWatchedFiles") {
		c.t.Errorf("%s", m.Params)
	} else {
		c.send(map[string]any{"id": m.ID, "result": nil})
	}
	return reply
}

func (c *client) end(want error) {
	c.t.Helper()
	if want == nil {
		if reply := c.request("shutdown", nil); reply.Error != nil {
			c.t.Error(reply.Error)
		}
	}
	c.notify("exit", nil)
	if err := <-c.ended; !errors.Is(err, want) {
		c.t.Errorf("%v, want %v", err, want)
	}
	for range c.messages { //nolint:revive // until the pipes are closed
	}
}

// published returns the problems that the server publishes next, as "version: line:character-character message".
func (c *client) published() string {
	c.t.Helper()
	var params publishDiagnosticsParams
	if err := json.Unmarshal(c.next("textDocument/publishDiagnostics", 0).Params, &params); err != nil {
		c.t.Fatal(err)
	}
	out := "closed:"
	if params.Version != nil {
		out = fmt.Sprintf("%s %d:", filepath.Base(params.URI), *params.Version)
	}
	for _, d := range params.Diagnostics {
		out += fmt.Sprintf(" %d:%d-%d %s", d.Range.Start.Line, d.Range.Start.Character, d.Range.End.Character, d.Message)
	}
	return out
}

func inFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func at(uri, text, before string) map[string]any {
	p := language.NewText(text).Position(strings.Index(text, before) + len(before))
	return map[string]any{"textDocument": map[string]any{"uri": uri}, "position": p}
}

func changed(uri string, version int, changes ...map[string]any) map[string]any {
	return map[string]any{"textDocument": map[string]any{"uri": uri, "version": version}, "contentChanges": changes}
}

func replace(line, from, to int, text string) map[string]any {
	return map[string]any{"range": language.Range{Start: language.Position{Line: line, Character: from}, End: language.Position{Line: line, Character: to}}, "text": text}
}

// TestAnEditorWritesADefinition speaks the protocol as an editor does: an error, its mending, names, types and places.
func TestAnEditorWritesADefinition(t *testing.T) {
	folder := inFolder(t, map[string]string{"network.yaml": networkText, "site.yaml": "saved: long ago\n"})
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		if reply := c.initialize(folder); !strings.Contains(string(reply.Result), `"change":2`) {
			t.Errorf("%s", reply.Result)
		}
		uri := uriOf(filepath.Join(folder, "site.yaml"))
		broken := strings.Replace(siteText, "schema.spec.cidr", "schema.spec.cdir", 1)
		c.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": uri, "languageId": "yaml", "version": 1, "text": broken}})
		if got, want := c.published(), "site.yaml 1: 16:31-35 spec.resources[0].template.spec.cidr: undefined field 'cdir' in schema.spec; did you mean \"cidr\"?"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		// Two changes of one version, the second one in the result of the first.
		c.notify("textDocument/didChange", changed(uri, 2, replace(16, 31, 35, "c"), replace(16, 32, 32, "idr")))
		if got := c.published(); got != "site.yaml 2:" {
			t.Errorf("%s", got)
		}
		reply := c.request("textDocument/completion", at(uri, siteText, "😀 ${schema.spec.c"))
		if !strings.Contains(string(reply.Result), `"label":"cidr"`) || !strings.Contains(string(reply.Result), `"start":{"line":16,"character":31}`) {
			t.Errorf("%s", reply.Result)
		}
		reply = c.request("textDocument/hover", at(uri, siteText, "😀 ${schema.spec.c"))
		if !strings.Contains(string(reply.Result), "cidr: string") {
			t.Errorf("%s", reply.Result)
		}
		reply = c.request("textDocument/definition", at(uri, siteText, "      kind: Net"))
		if !strings.Contains(string(reply.Result), uriOf(filepath.Join(folder, "network.yaml"))) || !strings.Contains(string(reply.Result), `"line":6`) {
			t.Errorf("%s", reply.Result)
		}
		c.end(nil)
	})
}

// TestTextsOfTheEditorWin checks that what is not saved yet counts, in all files, and what is saved once a text is closed.
func TestTextsOfTheEditorWin(t *testing.T) {
	folder := inFolder(t, map[string]string{"network.yaml": networkText, "site.yaml": siteText})
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.initialize(folder)
		site, network := uriOf(filepath.Join(folder, "site.yaml")), uriOf(filepath.Join(folder, "network.yaml"))
		c.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": site, "version": 1, "text": siteText}})
		if got := c.published(); got != "site.yaml 1:" {
			t.Errorf("%s", got)
		}
		renamed := strings.Replace(networkText, "      cidr: string", "      range: string", 1)
		c.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": network, "version": 7, "text": renamed}})
		both := c.published() + c.published()
		if !strings.Contains(both, "network.yaml 7:") || !strings.Contains(both, `site.yaml 1: 16:14-36 spec.resources[0].template.spec.cidr: there is no field "cidr" here`) {
			t.Errorf("%s", both)
		}
		c.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": network}})
		if got := c.published() + c.published(); got != "closed:site.yaml 1:" {
			t.Errorf("%s", got)
		}
		// Another program changes the file.
		if err := os.WriteFile(filepath.Join(folder, "network.yaml"), []byte(renamed), 0o600); err != nil {
			t.Fatal(err)
		}
		c.notify("workspace/didChangeWatchedFiles", map[string]any{"changes": []any{map[string]any{"uri": network, "type": 2}}})
		if got := c.published(); !strings.Contains(got, "there is no field") {
			t.Errorf("%s", got)
		}
		c.end(nil)
	})
}

// TestHalfWrittenTexts checks problems of syntax, versions that are not newer, and that a burst of changes is checked once.
func TestHalfWrittenTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.initialize(t.TempDir())
		const uri = "untitled:Untitled-1"
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
		c.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": uri, "version": 1, "text": text}})
		c.notify("textDocument/didChange", changed(uri, 2, replace(2, 18, 19, "")))
		if got := c.published(); got != "untitled:Untitled-1 2: 1:0-15 did not find expected ',' or '}'" {
			t.Errorf("%s", got)
		}
		c.notify("textDocument/didChange", changed(uri, 2, replace(0, 0, 0, "old")))
		for version := 3; version < 10; version++ {
			c.notify("textDocument/didChange", changed(uri, version, replace(2, 17, 18, "b")))
		}
		c.notify("textDocument/didChange", changed(uri, 10, replace(2, 18, 18, "}")))
		if got := c.published(); got != "untitled:Untitled-1 10:" {
			t.Errorf("%s", got)
		}
		synctest.Wait()
		if len(c.messages) > 0 {
			t.Errorf("%d more messages", len(c.messages))
		}
		c.end(nil)
	})
}

func TestWhatIsNotExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		if reply := c.request("textDocument/hover", map[string]any{}); reply.Error == nil || reply.Error.Code != codeNotInitialized {
			t.Errorf("before initialize: %v", reply.Error)
		}
		c.initialize(t.TempDir())
		if reply := c.request("textDocument/rename", map[string]any{}); reply.Error == nil || reply.Error.Code != -32601 {
			t.Errorf("an unknown method: %v", reply.Error)
		}
		if reply := c.request("textDocument/hover", []int{1}); reply.Error == nil || reply.Error.Code != -32602 {
			t.Errorf("wrong parameters: %v", reply.Error)
		}
		if reply := c.request("textDocument/hover", at("file:///not/open.yaml", "a", "a")); reply.Error != nil || string(reply.Result) != "null" {
			t.Errorf("a text that is not open: %v %s", reply.Error, reply.Result)
		}
		c.notify("textDocument/didOpen", []int{1})
		c.notify("$/setTrace", map[string]any{"value": "off"})
		c.end(ErrNoShutdown)
	})
}

// TestAPanicIsAnErrorOfItsRequest checks that the server goes on.
func TestAPanicIsAnErrorOfItsRequest(t *testing.T) {
	var s server
	if _, err := s.safely("textDocument/hover", func() (any, error) { panic("secret") }); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	for header, want := range map[string]string{
		"Content-Length: 99999999999\r\n\r\n":    "unexpected EOF",
		"Content-Length: -1\r\n\r\n":             "is not a number of bytes",
		"Content-Type: x\r\n\r\n":                "no Content-Length",
		strings.Repeat("x", maxHeaderBytes+1):    "more than 4096 bytes",
		"Content-Length: 5\r\n\r\n{}":            "unexpected EOF",
		"content-length:2\r\nOther: 1\r\n\r\n{}": "",
	} {
		var v map[string]any
		err := codec{}.ReadObject(bufio.NewReader(strings.NewReader(header)), &v)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: %v, want %s", header, err, want)
		}
	}
}

func TestNamesOfFiles(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///a/b%20c.yaml": "/a/b c.yaml", "untitled:One": "untitled:One", "file:///c%3A/x.yaml": "c:/x.yaml",
	} {
		if got := nameOf(uri); filepath.ToSlash(got) != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
	if got := nameOf(uriOf("/ä b/#1.yaml")); got != "/ä b/#1.yaml" {
		t.Error(got)
	}
	if !within("/a/b/c.yaml", []string{"/a"}) || within("/b/c.yaml", []string{"/a"}) || within("/a/.git/c.yaml", []string{"/a"}) {
		t.Error("folders")
	}
}

// TestFoldersAreRead checks that directories of tools are not read, and that a file that is gone has no text.
func TestFoldersAreRead(t *testing.T) {
	folder := inFolder(t, map[string]string{"a.yaml": "a", "b.txt": "b"})
	for _, name := range []string{".git", "node_modules"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name, "c.yaml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var d disk
	if err := d.read([]string{folder}); err != nil || len(d.texts) != 1 || d.bytes != 1 {
		t.Errorf("%v %v", d.texts, err)
	}
	path := filepath.Join(folder, "a.yaml")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := d.add(path); err != nil || len(d.texts) != 0 || d.bytes != 0 {
		t.Errorf("%v %v", d.texts, err)
	}
}

// TestAnInvalidMessageDoesNotEndTheServer sends messages that are no JSON, or no requests, between valid ones.
func TestAnInvalidMessageDoesNotEndTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.initialize(t.TempDir())
		for body, want := range map[string]int{
			`{"jsonrpc": "2.0", "id": 7, "method": `: -32700,
			"\xff\xfe":                               -32700,
			`{}`:                                     -32600,
			`[]`:                                     -32600,
			`7`:                                      -32600,
			`{"jsonrpc": "2.0", "id": {}, "method": "exit"}`:  -32600,
			`{"jsonrpc": "2.0", "id": 1.5, "method": "exit"}`: -32600,
			`{"jsonrpc": "2.0", "id": 1, "method": ["exit"]}`: -32600,
		} {
			if _, err := fmt.Fprintf(c.in, "Content-Length: %d\r\n\r\n%s", len(body), body); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			if m := c.next("", 0); m.Error == nil || m.Error.Code != want {
				t.Errorf("%s: %+v", body, m)
			}
		}
		c.request("shutdown", nil)
		c.notify("exit", nil)
		if err := <-c.ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
}

func TestAServerIsInitializedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.initialize(t.TempDir())
		if reply := c.request("initialize", map[string]any{"capabilities": map[string]any{}}); reply.Error == nil || reply.Error.Code != -32600 {
			t.Errorf("got %+v", reply)
		}
		c.request("shutdown", nil)
		c.notify("exit", nil)
		<-c.ended
	})
}

// TestATooLargeMessageDoesNotEndTheServer opens a text that is larger than what the server reads of a message.
func TestATooLargeMessageDoesNotEndTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.initialize(t.TempDir())
		if _, err := fmt.Fprintf(c.in, "Content-Length: %d\r\n\r\n%s", maxMessageBytes+1, strings.Repeat("x", maxMessageBytes+1)); err != nil {
			t.Fatal(err)
		}
		if m := c.next("", 0); m.Error == nil || !strings.Contains(m.Error.Message, "more than 26214400 bytes") {
			t.Errorf("%+v", m.Error)
		}
		c.end(nil)
	})
}

// TestTheEndHasItsReason checks that the server does not blame the editor for a signal, nor hides what was wrong with a message.
func TestTheEndHasItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancelCause(t.Context())
		c := startUntil(ctx, t)
		c.initialize(t.TempDir())
		reason := errors.New("interrupt signal received")
		interrupt(reason)
		if err := <-c.ended; !errors.Is(err, reason) {
			t.Errorf("interrupted: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.initialize(t.TempDir())
		if _, err := io.WriteString(c.in, "Content-Length: all\r\n\r\n{}"); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Fatal(err)
		}
		if err := <-c.ended; errors.Is(err, ErrNoShutdown) || !strings.Contains(fmt.Sprint(err), `the Content-Length "all" is not a number of bytes`) {
			t.Errorf("an invalid header: %v", err)
		}
	})
}
