package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
	kubejson "sigs.k8s.io/json"
)

// TestDecodesAsKubernetesDoes compares with the decoder of Kubernetes, on texts that are JSON and on
// texts that are not.
func TestDecodesAsKubernetesDoes(t *testing.T) {
	same := func(t interface{ Errorf(string, ...any) }, text string) {
		var want map[string]any
		wantErr := kubejson.UnmarshalCaseSensitivePreserveInts([]byte(text), &want)
		got, err := decode([]byte(text))
		if (err == nil) != (wantErr == nil && want != nil) {
			t.Errorf("%q: %v, and of Kubernetes %v", text, err, wantErr)
			return
		}
		if err == nil && !reflect.DeepEqual(want, got) {
			t.Errorf("%q is\n%v, not\n%v", text, got, want)
		}
	}
	for _, text := range []string{
		`{}`, `{"a":{}}`, `{"a":[]}`, `{"a":[[],{}],"b":null}`, ` { "a" : [ 1 , 2 ] } `, "{}\n", `{"a":true,"b":false}`,
		`{"a":0,"b":-0,"c":1.0,"d":1e3,"e":-1.5e-3,"f":9223372036854775807,"g":9223372036854775808,"h":-9223372036854775808,"i":1E400}`,
		`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":NaN}`, `{"a":0x1}`, `{"a":-}`,
		`{"a":"\u00e9\n\t\"\\\/\b\f\r","\u0061b":"\ud83d\ude00","c":"\ud83d","d":"é😀"}`, `{"a":"` + "\x01" + `"}`, `{"a":"\x"}`, `{"a":"\u12"}`,
		"{\"a\":\"\xff\xfe b\",\"\xffk\":\"\xc3\"}", `{"a":1,"a":2,"a":{"b":1},"c":{"d":1,"d":{"e":2}}}`,
		``, `null`, `[]`, `"a"`, `1`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,}`, `{"a":[1,]}`, `{a:1}`, `{'a':1}`, `{"a":1}{}`, `{"a":1} x`, `{1:2}`, `{"a" 1}`, `{"a":1 "b":2}`,
		`{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, `{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`,
		`{"` + strings.Repeat("k", 200) + `":"` + strings.Repeat("v", 70000) + `"}`,
	} {
		same(t, text)
	}
	rapid.Check(t, func(r *rapid.T) {
		raw, err := json.Marshal(map[string]any{rapid.String().Draw(r, "key"): value(r, 3)})
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		if rapid.Bool().Draw(r, "damaged") {
			at := rapid.IntRange(0, len(text)-1).Draw(r, "at")
			text = text[:at] + string(rapid.Byte().Draw(r, "byte")) + text[at+1:]
		}
		same(r, text)
	})
}

func value(r *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(r, "kind") {
	case 0:
		return rapid.String().Draw(r, "text")
	case 1:
		return rapid.Int64().Draw(r, "number")
	case 2:
		return rapid.Float64Range(-1e300, 1e300).Draw(r, "fraction")
	case 3:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(r, "constant")
	case 4:
		var out []any
		for range rapid.IntRange(0, 3).Draw(r, "length") {
			out = append(out, value(r, depth-1))
		}
		return out
	}
	out := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(r, "size") {
		out[rapid.SampledFrom([]string{"a", "b", "metadata", "é", `"`, "f:x"}).Draw(r, "key")] = value(r, depth-1)
	}
	return out
}

// TestObjectsAreIndependent decodes twice with the same buffers: the second object does not change the
// first.
func TestObjectsAreIndependent(t *testing.T) {
	data := []byte(`{"kind":"A","metadata":{"name":"first"}}`)
	first, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	copy(data, `{"kind":"B","metadata":{"name":"other"}}`)
	if _, err := decode(data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"kind": "A", "metadata": map[string]any{"name": "first"}}, first); diff != "" {
		t.Error(diff)
	}
}

// TestAnswersAreThoseOfTheDynamicClient sends the same requests with both clients to servers that
// answer in all the ways that an API server does.
func TestAnswersAreThoseOfTheDynamicClient(t *testing.T) {
	status := func(code int, reason metav1.StatusReason) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":%q,"details":{"name":"x"},"code":%d}`, reason, code)
	}
	answers := map[string]struct {
		code int
		body string
	}{
		"an object":                {200, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","resourceVersion":"7"},"data":{"a":"1"}}`},
		"a list":                   {200, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7","continue":"c"},"items":[{"metadata":{"name":"x"}},{"metadata":{"name":"y"},"apiVersion":"v1","kind":"Own"}]}`},
		"an empty list":            {200, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[]}`},
		"a list without items":     {200, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":null}`},
		"a list of something else": {200, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{},"items":[1]}`},
		"a list of another name":   {200, `{"apiVersion":"example.org/v1","kind":"Things","metadata":{},"items":[{"metadata":{"name":"x"}}]}`},
		"success":                  {200, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`},
		"no kind":                  {200, `{"apiVersion":"v1","metadata":{"name":"x"}}`},
		"no JSON":                  {200, `<html>`},
		"half an object":           {200, `{"apiVersion":"v1","kind":"ConfigMap"`},
		"nothing":                  {200, ``},
		"not found":                {404, status(404, metav1.StatusReasonNotFound)},
		"a conflict":               {409, status(409, metav1.StatusReasonConflict)},
		"an error of a proxy":      {502, "<html>bad gateway</html>"},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(answer.code)
				_, _ = io.WriteString(w, answer.body)
			}))
			defer server.Close()
			ours, theirs := clients(t, server.URL)
			gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
			for _, request := range []func(dynamic.Interface) (any, error){
				func(c dynamic.Interface) (any, error) {
					return c.Resource(gvr).Namespace("a").Get(t.Context(), "x", metav1.GetOptions{})
				},
				func(c dynamic.Interface) (any, error) { return c.Resource(gvr).List(t.Context(), metav1.ListOptions{}) },
				func(c dynamic.Interface) (any, error) {
					return nil, c.Resource(gvr).Namespace("a").Delete(t.Context(), "x", metav1.DeleteOptions{})
				},
			} {
				want, wantErr := request(theirs)
				got, err := request(ours)
				if fmt.Sprint(err) != fmt.Sprint(wantErr) || apierrors.ReasonForError(err) != apierrors.ReasonForError(wantErr) {
					t.Errorf("the error is\n%v, and of the dynamic client\n%v", err, wantErr)
				}
				if diff := cmp.Diff(want, got); diff != "" && err == nil {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestEventsAreThoseOfTheDynamicClient watches with both clients.
func TestEventsAreThoseOfTheDynamicClient(t *testing.T) {
	object := func(name, more string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"resourceVersion":"7"}%s}`, name, more)
	}
	event := func(kind, object string) string { return fmt.Sprintf("{\"type\":%q,\"object\":%s}\n", kind, object) }
	streams := map[string]string{
		"events":                 event("ADDED", object("a", "")) + event("MODIFIED", object("a", `,"data":{"x":"}\"}"}`)) + event("DELETED", object("a", "")),
		"a bookmark":             event("BOOKMARK", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"9"}}`),
		"an expired revision":    event("ERROR", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}`),
		"a large object":         event("ADDED", object("a", `,"data":{"x":"`+strings.Repeat("y", 300_000)+`"}`)) + event("ADDED", object("b", "")),
		"white space":            "\n" + `{ "type": "ADDED", "object": ` + object("a", "") + " }\n\n" + event("ADDED", object("b", "")),
		"other order of fields":  `{"object":` + object("a", "") + `,"type":"ADDED"}` + "\n",
		"no end of line":         strings.TrimSuffix(event("ADDED", object("a", "")), "\n"),
		"a broken connection":    event("ADDED", object("a", "")) + `{"type":"ADDED","object":{"apiVe`,
		"an object without kind": event("ADDED", `{"metadata":{"name":"a"}}`),
		"an unknown type":        event("RENAMED", object("a", "")),
		"nothing":                "",
	}
	for name, stream := range streams {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, stream)
			}))
			defer server.Close()
			ours, theirs := clients(t, server.URL)
			events := func(c dynamic.Interface) (out []any) {
				w, err := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Watch(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for event := range w.ResultChan() {
					out = append(out, event)
				}
				return out
			}
			if diff := cmp.Diff(events(theirs), events(ours)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadsAreIndependentOfTheirSizes reads events from streams that return some bytes at a time.
func TestReadsAreIndependentOfTheirSizes(t *testing.T) {
	long := strings.Repeat("y", 3*readAhead)
	text := "{\"a\":1}\n\n" + long + "\n{\"b\":2}\n" + long + "\n{\"c\":3}"
	want := []string{`{"a":1}`, long, `{"b":2}`, long, `{"c":3}`}
	for name, stream := range map[string]io.Reader{
		"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		"with its end": iotest.DataErrReader(strings.NewReader(text)), "by halves": iotest.HalfReader(strings.NewReader(text)),
	} {
		t.Run(name, func(t *testing.T) {
			reader := &lineReader{stream: stream}
			var got []string
			for {
				line, err := reader.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(line))
				if reader.lines != nil && reader.lines.Buffered() == 0 {
					reader.release() // as it does before it waits
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnIdleStreamHasNoBuffer waits for the second event of a stream.
func TestAnIdleStreamHasNoBuffer(t *testing.T) {
	out, in := io.Pipe()
	waits := make(chan *bufio.Reader)
	reader := &lineReader{}
	reader.stream = readerFunc(func(into []byte) (int, error) {
		if len(into) == 1 {
			waits <- reader.lines
		}
		return out.Read(into)
	})
	go func() {
		for {
			if _, err := reader.next(); err != nil {
				close(waits)
				return
			}
		}
	}()
	for range 3 {
		if <-waits != nil {
			t.Error("a stream that waits has a buffer")
		}
		if _, err := io.WriteString(in, "{\"type\":\"ADDED\"}\n"); err != nil {
			t.Fatal(err)
		}
	}
	<-waits
	in.Close()
	<-waits
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(into []byte) (int, error) { return f(into) }

func clients(t *testing.T, url string) (ours, theirs dynamic.Interface) {
	t.Helper()
	config := &rest.Config{Host: url}
	ours, err := NewClient(config, http.DefaultClient)
	theirs, theirErr := dynamic.NewForConfigAndClient(config, http.DefaultClient)
	if err := errors.Join(err, theirErr); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

const example = `{"apiVersion":"v1","data":{"text":"flat-0 says 1"},"kind":"ConfigMap","metadata":{"annotations":{"espalier.dev/applied":"ae022b77f67d6d206a0db162099588ea","espalier.dev/depends-on":""},"creationTimestamp":"2026-11-25T00:05:52Z","labels":{"app.kubernetes.io/managed-by":"kro","kro.run/instance-group":"example.com","kro.run/instance-kind":"Ordered","kro.run/instance-name":"x","kro.run/owned":"true"},"managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:text":{}},"f:metadata":{"f:annotations":{"f:espalier.dev/applied":{},"f:espalier.dev/depends-on":{}},"f:labels":{"f:app.kubernetes.io/managed-by":{},"f:kro.run/instance-group":{},"f:kro.run/instance-kind":{},"f:kro.run/instance-name":{},"f:kro.run/owned":{}}}},"manager":"kro.run/applyset","operation":"Apply","time":"2026-11-25T00:05:52Z"}],"name":"x-first","namespace":"prod","resourceVersion":"10747","uid":"c0bbdce2-f3e8-42ec-92e4-fd0f14791cb4"}}`

// BenchmarkObject decodes an object, by this package and by the dynamic client's serializer.
func BenchmarkObject(b *testing.B) {
	inner := dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer
	for name, s := range map[string]runtime.NegotiatedSerializer{"wire": serializer{inner}, "dynamic": inner} {
		b.Run(name, func(b *testing.B) {
			info, _ := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeJSON)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := info.Serializer.Decode([]byte(example), nil, &unstructured.Unstructured{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
