package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/conversion"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// library holds CustomResourceDefinitions that a test has made up, and counts readings.
type library struct {
	mu    sync.Mutex
	kinds map[string]*apiextensionsv1.CustomResourceDefinition
	reads int
	lists int
	err   error
	panic bool
}

// ResourceVersions returns the digests, which change when the others' resource versions do.
func (l *library) ResourceVersions(context.Context) (map[string]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists++
	out := map[string]string{}
	for name, c := range l.kinds {
		if c.Labels[v1alpha1.OwnedLabel] == "true" {
			out[name] = install.ConversionDigest(c)
		}
	}
	return out, l.err
}

func (l *library) Get(_ context.Context, _ schema.GroupVersionKind, _, name string) (*unstructured.Unstructured, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	if l.panic {
		panic("secret")
	}
	if l.err != nil {
		return nil, l.err
	}
	c, ok := l.kinds[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, name)
	}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	o := &unstructured.Unstructured{Object: raw}
	o.SetResourceVersion(install.ConversionDigest(c))
	return o, err
}

// apps is a kind of two versions, of which the old one's field is what it is called.
func apps(t testing.TB, field string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	raw := func(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }
	spec := &v1alpha1.DefinitionSpec{Schema: &v1alpha1.Schema{
		Kind: "App", APIVersion: "v1", Spec: raw(`{"replicas":"integer"}`),
		Versions: []v1alpha1.Version{{
			Name: "v1alpha1", Spec: raw(`{"` + field + `":"string"}`),
			Conversion: &v1alpha1.Conversion{
				To:   &v1alpha1.ConvertedFields{Spec: raw(`{"replicas":"${int(self.spec.?` + field + `.orValue('1'))}"}`)},
				From: &v1alpha1.ConvertedFields{Spec: raw(`{"` + field + `":"${string(self.spec.?replicas.orValue(1))}"}`)},
			},
		}},
	}}
	g, problems := graph.Compile(spec, nil)
	if problems != nil {
		t.Fatal(problems.Err())
	}
	c := kind.For(g, spec.Schema, object.Definition{Name: "apps"}, kind.Options{Version: "v1"})
	install.SetConversion(c, install.Endpoint{URL: "https://127.0.0.1:1", CABundle: []byte("x")})
	return c
}

func conversionOf(to string, objects ...string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"r-1","desiredAPIVersion":"` + to + `","objects":[` + strings.Join(objects, ",") + `]}}`
}

func TestConversionsAreAnswered(t *testing.T) {
	kind := apps(t, "count")
	path := install.ConversionPath + kind.Name + "/" + install.ConversionDigest(kind)
	one := `{"apiVersion":"kro.run/v1alpha1","kind":"App","metadata":{"name":"a","namespace":"prod"},"spec":{"count":"3"}}`
	odd := strings.Replace(one, `"3"`, `"many"`, 1)
	other := apps(t, "count")
	other.Name = "others.kro.run"
	delete(other.Labels, v1alpha1.OwnedLabel)
	cases := map[string]struct {
		reason       string
		method, path string
		body         string
		err          error
		panic        bool
		status       int
		says         string
		objects      int
		holds        string
	}{
		"Objects are converted":                      {"all are", "", path, conversionOf("kro.run/v1", one, one), nil, false, 200, "", 2, `"replicas":3`},
		"None is, if one can't be":                   {"the API server takes all or none", "", path, conversionOf("kro.run/v1", one, odd), nil, false, 200, `App prod/a cannot be converted from v1alpha1 to v1: spec.replicas: in "int(`, 0, ""},
		"Nothing is none":                            {"there is nothing to do", "", path, conversionOf("kro.run/v1"), nil, false, 200, "", 0, ""},
		"A version that isn't there":                 {"it may come", "", path, conversionOf("kro.run/v7", one), nil, false, 200, `no version "v7"; it has v1, v1alpha1`, 0, ""},
		"Another group":                              {"the API server doesn't ask that", "", path, conversionOf("example.com/v1", one), nil, false, 200, "in the group kro.run", 0, ""},
		"What is no version":                         {"nor that", "", path, conversionOf("a/b/c", one), nil, false, 200, "desiredAPIVersion", 0, ""},
		"What is no object":                          {"nor that", "", path, conversionOf("kro.run/v1", "7"), nil, false, 200, "objects[0]", 0, ""},
		"Another digest gets what is there":          {"the API server may be of an older mind", "", install.ConversionPath + kind.Name + "/old", conversionOf("kro.run/v1", one), nil, false, 200, "", 1, `"replicas":3`},
		"A kind that isn't there":                    {"it has just gone", "", install.ConversionPath + "gone.kro.run/x", conversionOf("kro.run/v1", one), nil, false, 200, "are not converted by this webhook", 0, ""},
		"A kind that isn't ours":                     {"its conversion is somebody else's", "", install.ConversionPath + "others.kro.run/x", conversionOf("kro.run/v1", one), nil, false, 200, "are not converted by this webhook", 0, ""},
		"What can be no kind":                        {"it isn't asked for", "", install.ConversionPath + "A_B/x", conversionOf("kro.run/v1", one), nil, false, 200, "are not converted by this webhook", 0, ""},
		"The API server can't be read":               {"it is told why", "", install.ConversionPath + kind.Name + "/new", conversionOf("kro.run/v1", one), errors.New("no way"), false, 200, "no way", 0, ""},
		"Another method":                             {"reviews are posted", http.MethodGet, path, "", nil, false, 405, "", 0, ""},
		"No review":                                  {"it is told", "", path, "{}", nil, false, 400, "", 0, ""},
		"No JSON":                                    {"it is told", "", path, "{", nil, false, 400, "", 0, ""},
		"No digest":                                  {"nobody asks so", "", install.ConversionPath + kind.Name, conversionOf("kro.run/v1", one), nil, false, 404, "", 0, ""},
		"Too much":                                   {"memory is bounded", "", path, strings.Repeat(" ", maxConversionRequest+1), nil, false, 413, "", 0, ""},
		"Too many objects":                           {"millions of small ones are few bytes", "", path, conversionOf("kro.run/v1", strings.Repeat("0,", maxConversionObjects)+"0"), nil, false, 413, "", 0, ""},
		"A mistake in the program is one of its own": {"others go on", "", install.ConversionPath + kind.Name + "/new", conversionOf("kro.run/v1", one), nil, true, 500, "", 0, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := &library{kinds: map[string]*apiextensionsv1.CustomResourceDefinition{kind.Name: kind, other.Name: other}, err: tc.err}
			var converters Converters = NewConverterCache(l)
			if tc.panic {
				converters = panics{}
			}
			if tc.method == "" {
				tc.method = http.MethodPost
			}
			w := httptest.NewRecorder()
			NewConversions(converters, nil, logr.Discard()).ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body)))
			if w.Code != tc.status {
				t.Fatalf("%s: it answers %d %s", tc.reason, w.Code, w.Body)
			}
			if tc.status != http.StatusOK {
				return
			}
			var review apiextensionsv1.ConversionReview
			if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil || review.Response.UID != "r-1" {
				t.Fatalf("%v: %s", err, w.Body)
			}
			if (review.Response.Result.Status == "Success") != (tc.says == "") || !strings.Contains(review.Response.Result.Message, tc.says) {
				t.Errorf("%s: it says %v", tc.reason, review.Response.Result)
			}
			if len(review.Response.ConvertedObjects) != tc.objects {
				t.Errorf("%s: %d objects", tc.reason, len(review.Response.ConvertedObjects))
			}
			for _, o := range review.Response.ConvertedObjects {
				if !strings.Contains(string(o.Raw), tc.holds) {
					t.Errorf("%s: %s", tc.reason, o.Raw)
				}
			}
		})
	}
}

type panics struct{}

func (panics) ConverterFor(context.Context, string, string) (*conversion.Converter, error) {
	panic("secret")
}

func TestAConverterIsCompiledOncePerChange(t *testing.T) {
	kind := apps(t, "count")
	l := &library{kinds: map[string]*apiextensionsv1.CustomResourceDefinition{kind.Name: kind}}
	c := NewConverterCache(l)
	ask := func(kind *apiextensionsv1.CustomResourceDefinition) *conversion.Converter {
		t.Helper()
		converter, err := c.ConverterFor(t.Context(), kind.Name, install.ConversionDigest(kind))
		if err != nil {
			t.Fatal(err)
		}
		return converter
	}
	first := ask(kind)
	for range 3 {
		if ask(kind) != first {
			t.Error("it is another")
		}
	}
	if l.reads != 1 {
		t.Errorf("it was read %d times", l.reads)
	}
	changed := apps(t, "size")
	if install.ConversionDigest(changed) == install.ConversionDigest(kind) {
		t.Fatal("what has changed has the same digest")
	}
	l.kinds[kind.Name] = changed
	second := ask(changed)
	o, err := second.Convert(map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "App", "spec": map[string]any{"size": "4"}}, "v1")
	if err != nil || second == first {
		t.Fatalf("%v, %v", o, err)
	}
	// What has gone is forgotten.
	delete(l.kinds, kind.Name)
	if _, err := c.ConverterFor(t.Context(), kind.Name, "another"); !errors.Is(err, ErrNoConversion) {
		t.Errorf("it says %v", err)
	}
	if len(c.kinds) != 0 {
		t.Errorf("it still knows %v", c.kinds)
	}
}

// TestDecodedObjectsAreBounded sends objects whose values take many times their bytes.
func TestDecodedObjectsAreBounded(t *testing.T) {
	kind := apps(t, "count")
	path := install.ConversionPath + kind.Name + "/" + install.ConversionDigest(kind)
	with := func(size int) string {
		text := `{"apiVersion":"kro.run/v1alpha1","kind":"App","metadata":{"name":"a","namespace":"prod"},"spec":{"count":"3"},"x":[{}`
		return text + strings.Repeat(",{}", (size-len(text))/len(",{}")) + "]}"
	}
	converters := NewConverterCache(&library{kinds: map[string]*apiextensionsv1.CustomResourceDefinition{kind.Name: kind}})
	if w := post(NewConversions(converters, nil, logr.Discard()), path, conversionOf("kro.run/v1", with(maxDecoding+100))); !strings.Contains(w.Body.String(), "objects[0] has 4194") {
		t.Errorf("a larger object: %.300s", w.Body)
	}
	synctest.Test(t, func(t *testing.T) {
		c := NewConversions(converters, nil, logr.Discard())
		if !c.decoding.TryAcquire(maxDecoding) { // as other requests do
			t.Fatal("something is decoded")
		}
		h := newLimiter("conversion", maxConversionRequest, conversionLimit, nil, c)
		if w := post(h, path, conversionOf("kro.run/v1", with(1000))); !strings.Contains(w.Body.String(), "0 of 1 objects were converted within the timeout") {
			t.Errorf("while others are decoded: %s", w.Body)
		}
		c.decoding.Release(maxDecoding)
		if w := post(h, path, conversionOf("kro.run/v1", with(1000))); !strings.Contains(w.Body.String(), "convertedObjects") {
			t.Errorf("afterwards: %s", w.Body)
		}
		if !c.decoding.TryAcquire(maxDecoding) {
			t.Error("an object that is no longer decoded still counts")
		}
	})
}
