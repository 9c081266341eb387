package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/espalier-dev/espalier/internal/authoring/language"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Limits, so that an editor or a text cannot make the server use any amount of time or memory.
const (
	maxOpenDocuments = 1000
	// maxRequests bounds the requests that are answered at the same time, and requestLimit the time of each.
	maxRequests  = 4
	requestLimit = 10 * time.Second
	// quietTime is how long nothing must change before the texts are checked.
	quietTime = 150 * time.Millisecond
)

// Options configure a server.
type Options struct {
	Version  string
	Language language.Options
	// Log takes messages about the server itself, not about texts.
	Log io.Writer
}

// ErrNoShutdown is the error of a server that ends without a request to shut down.
var ErrNoShutdown = errors.New("the editor ended without a shutdown request")

// server is the state of a connection. The library calls Handle for one message after the other.
type server struct {
	options Options
	log     *log.Logger
	// changed has a value if texts have changed since the last check.
	changed  chan struct{}
	requests chan struct{}
	end      context.CancelFunc

	mu       sync.Mutex
	folders  []string
	open     map[string]*document
	reread   bool            // all files of the folders are to be read
	stale    map[string]bool // files that are to be read again
	checked  *language.Checked
	plain    bool // the editor shows no Markdown
	register bool // the editor watches files for the server
	isUp     bool
	isDown   bool

	handlers map[string]handler
}

// document is a text that is open in the editor. It is immutable.
type document struct {
	uri     string
	version int
	text    *language.Text
}

// Serve answers the editor at the other end of a connection until it ends it or the context ends. The error of a context that ends before a
// request to shut down is its cause.
func Serve(ctx context.Context, connection io.ReadWriteCloser, o Options) error {
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{
		options: o, log: log.New(o.Log, "espalier lsp: ", 0), changed: make(chan struct{}, 1), requests: make(chan struct{}, maxRequests), end: cancel,
		open: map[string]*document{}, stale: map[string]bool{}, checked: language.Check(nil, nil, o.Language),
	}
	s.handlers = s.allHandlers()
	messages := &stream{ObjectStream: jsonrpc2.NewBufferedStream(connection, codec{})}
	conn := jsonrpc2.NewConn(ctx, messages, s, jsonrpc2.SetLogger(s.log))
	var checks sync.WaitGroup
	checks.Go(func() { s.checkChanges(ctx, conn) })
	var failure error
	select {
	case <-conn.DisconnectNotify():
		if ctx.Err() == nil {
			failure = messages.failure // the reader has ended the connection, and so itself
		}
	case <-ctx.Done():
	}
	interrupted := context.Cause(caller)
	cancel()
	err := conn.Close()
	checks.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isDown && errors.Is(err, jsonrpc2.ErrClosed):
		return nil
	case s.isDown:
		return err
	case interrupted != nil:
		return interrupted
	case failure == nil, errors.Is(failure, io.EOF), errors.Is(failure, io.ErrUnexpectedEOF):
		return ErrNoShutdown
	}
	return fmt.Errorf("read a message of the editor: %w", failure)
}

// handler answers a request, or takes a notification.
type handler struct {
	// now changes the state, before the next message is read.
	now func(ctx context.Context, conn *jsonrpc2.Conn, params json.RawMessage) (any, error)
	// later answers a question about a text beside other messages.
	later func(name string, text *language.Text, checked *language.Checked, at language.Position) any
}

func (s *server) allHandlers() map[string]handler {
	return map[string]handler{
		"initialize":                          {now: s.initialize},
		"initialized":                         {now: s.initialized},
		"shutdown":                            {now: s.shutdown},
		"exit":                                {now: s.exit},
		"textDocument/didOpen":                {now: s.didOpen},
		"textDocument/didChange":              {now: s.didChange},
		"textDocument/didClose":               {now: s.didClose},
		"workspace/didChangeWatchedFiles":     {now: s.didChangeWatchedFiles},
		"workspace/didChangeWorkspaceFolders": {now: s.didChangeFolders},
		"textDocument/completion":             {later: s.complete},
		"textDocument/hover":                  {later: s.hover},
		"textDocument/definition":             {later: s.definition},
	}
}

// Handle answers a message. The library calls it for one after the other.
func (s *server) Handle(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request) {
	h, known := s.handlers[r.Method]
	var params json.RawMessage
	if r.Params != nil {
		params = *r.Params
	}
	s.mu.Lock()
	isDown, isUp := s.isDown, s.isUp
	s.mu.Unlock()
	switch {
	case !known:
		s.replyError(ctx, conn, r, jsonrpc2.CodeMethodNotFound, "the server does not have "+r.Method)
	case !isUp && r.Method != "initialize" && r.Method != "exit":
		s.replyError(ctx, conn, r, codeNotInitialized, "the server is not initialized")
	case isUp && r.Method == "initialize":
		s.replyError(ctx, conn, r, jsonrpc2.CodeInvalidRequest, "the server is initialized already")
	case isDown && r.Method != "exit":
		s.replyError(ctx, conn, r, jsonrpc2.CodeInvalidRequest, "the server is shut down")
	case h.now != nil:
		s.reply(ctx, conn, r, func() (any, error) { return h.now(ctx, conn, params) })
	default:
		s.answer(ctx, conn, r, h, params)
	}
}

// Codes of errors of the protocol.
const (
	codeNotInitialized = -32002
	codeRequestFailed  = -32803
)

// reply replies with a result. A panic is an error of the request, and the server goes on.
func (s *server) reply(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request, compute func() (any, error)) {
	result, err := s.safely(r.Method, compute)
	switch {
	case err != nil && r.Notif:
		s.log.Printf("%s: %v", r.Method, err)
	case err != nil:
		s.replyError(ctx, conn, r, codeRequestFailed, err.Error())
	case !r.Notif:
		if err := conn.Reply(ctx, r.ID, result); err != nil && !errors.Is(err, jsonrpc2.ErrClosed) {
			s.log.Print(err)
		}
	}
}

func (s *server) safely(method string, compute func() (any, error)) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New(method + " failed because of an error in Espalier: " + diag.Panic(p))
		}
	}()
	return compute()
}

// answer answers a question about a text, beside other messages and for a bounded time.
func (s *server) answer(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request, h handler, raw json.RawMessage) {
	var params positionParams
	if err := json.Unmarshal(raw, &params); err != nil {
		s.replyError(ctx, conn, r, jsonrpc2.CodeInvalidParams, err.Error())
		return
	}
	select {
	case s.requests <- struct{}{}:
	default:
		s.replyError(ctx, conn, r, codeRequestFailed, "too many requests at the same time")
		return
	}
	name := nameOf(params.TextDocument.URI)
	s.mu.Lock()
	d, checked := s.open[name], s.checked
	s.mu.Unlock()
	type answer struct {
		result any
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		defer func() { <-s.requests }()
		result, err := s.safely(r.Method, func() (any, error) {
			if d == nil {
				return nil, nil
			}
			return h.later(name, d.text, checked, params.Position), nil
		})
		done <- answer{result, err}
	}()
	go func() {
		timer := time.NewTimer(requestLimit)
		defer timer.Stop()
		select {
		case a := <-done:
			s.reply(ctx, conn, r, func() (any, error) { return a.result, a.err })
		case <-timer.C:
			s.replyError(ctx, conn, r, codeRequestFailed, "the request takes more than "+requestLimit.String())
		case <-ctx.Done():
		}
	}()
}

func (s *server) replyError(ctx context.Context, conn *jsonrpc2.Conn, r *jsonrpc2.Request, code int64, message string) {
	if r.Notif {
		return
	}
	if err := conn.ReplyWithError(ctx, r.ID, &jsonrpc2.Error{Code: code, Message: message}); err != nil && !errors.Is(err, jsonrpc2.ErrClosed) {
		s.log.Print(err)
	}
}
