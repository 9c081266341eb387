package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestUIListensOnLoopbackOnly(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":7070", "192.0.2.1:80", "example.com:80", "nonsense"} {
		if code, _, errs := call(t.Context(), "ui", "--address", address); code != exitUsage || !strings.Contains(errs, "--address") {
			t.Errorf("%s: exit code %d, %q", address, code, errs)
		}
	}
}

func TestUIServesThePageToWhoHasItsAddress(t *testing.T) {
	l := newLayers(t)
	l.nest(t)
	ctx, stop := context.WithTimeout(t.Context(), testkit.Timeout)
	defer stop()
	out, to := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- Main(ctx, []string{"ui", "--kubeconfig", l.file}, to, io.Discard) }()
	address := ""
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://127.0.0.1:") {
			address = text
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	get := func(address string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	if got := get(address); got.StatusCode != http.StatusOK || strings.Contains(got.Request.URL.String(), "token") {
		t.Errorf("the address leads to %s: %s", got.Request.URL, got.Status)
	}
	base, _, _ := strings.Cut(address, "login?")
	stream := bufio.NewReader(get(base + "api/object?kind=Layer&group=" + l.kind.Group + "&name=top&namespace=" + l.namespace).Body)
	for text := ""; !strings.Contains(text, "held by finalizer example.com/guard"); {
		line, err := stream.ReadString('\n')
		if err != nil {
			t.Fatalf("%v; read %s", err, text)
		}
		text += line
	}
	stop()
	if code := <-ended; code != exitDone {
		t.Errorf("exit code %d", code)
	}
}
