package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/conversion"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Limits of a conversion. The API server asks about one object at a time, but for lists
// that somebody reads in another version than the one that they were read in.
const (
	mostConverted   = 16 << 20        // bytes of a request
	conversionLimit = 8 * time.Second // within what an answer may take
	longestFailure  = 4 << 10         // bytes of what a failure says
)

// Converters know how the objects of kinds are converted.
type Converters interface {
	// Of returns the converter of a CustomResourceDefinition's objects. The digest is of
	// what the API server goes by. ErrNoConversion says that there is none.
	Of(ctx context.Context, name, digest string) (*conversion.Converter, error)
}

// ErrNoConversion is the error about a kind that isn't ours to convert.
var ErrNoConversion = errors.New("objects of this kind aren't converted here")

// Conversions answers the API server when it wants objects in another version. Whatever
// is sent, it answers.
type Conversions struct {
	Converters Converters
	Metrics    *telemetry.Conversions
	Log        logr.Logger
}

// ServeHTTP answers a ConversionReview with one.
func (c Conversions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer recovered(w, c.Log)
	if r.Method != http.MethodPost {
		http.Error(w, "a ConversionReview is posted", http.StatusMethodNotAllowed)
		return
	}
	name, digest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, install.ConversionPath), "/")
	if !ok || name == "" || digest == "" || strings.Contains(digest, "/") {
		http.NotFound(w, r)
		return
	}
	review, err := readReview(http.MaxBytesReader(w, r.Body, mostConverted))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), conversionLimit)
	defer cancel()
	answer := &apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Response: c.answer(ctx, name, digest, review.Request)}
	answer.Response.UID = review.Request.UID
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, "no answer can be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // who doesn't wait for it has gone
}

func readReview(body io.Reader) (*apiextensionsv1.ConversionReview, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var review apiextensionsv1.ConversionReview
	if err := json.Unmarshal(raw, &review); err != nil {
		return nil, errors.New("it isn't a ConversionReview")
	}
	if review.Kind != "ConversionReview" || review.APIVersion != apiextensionsv1.SchemeGroupVersion.String() || review.Request == nil {
		return nil, fmt.Errorf("it isn't a ConversionReview of %s with a request", apiextensionsv1.SchemeGroupVersion)
	}
	return &review, nil
}

// answer converts the objects of a request: all, or none if one can't be.
func (c Conversions) answer(ctx context.Context, name, digest string, r *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	began := time.Now()
	converter, err := c.Converters.Of(ctx, name, digest)
	if err != nil {
		c.Log.Error(err, "objects can't be converted", "CustomResourceDefinition", name)
		return failed(http.StatusInternalServerError, fmt.Sprintf("it can't be told how objects of %s are converted: %v", name, err))
	}
	wanted, err := schema.ParseGroupVersion(r.DesiredAPIVersion)
	if err != nil {
		return failed(http.StatusBadRequest, "desiredAPIVersion is no version of a group")
	}
	version := wanted.Version
	if !converter.Knows(version) {
		version = "unknown" // what is counted is bounded
	}
	out, err := convertAll(ctx, converter, wanted, r.Objects)
	c.Metrics.Observe(converter.Kind(), version, len(out), err != nil, time.Since(began))
	if err != nil {
		c.Log.Info("an object can't be converted", "CustomResourceDefinition", name, "why", diag.Cut(err.Error(), longestFailure))
		return failed(http.StatusUnprocessableEntity, err.Error())
	}
	return &apiextensionsv1.ConversionResponse{ConvertedObjects: out, Result: metav1.Status{Status: metav1.StatusSuccess}}
}

func convertAll(ctx context.Context, converter *conversion.Converter, wanted schema.GroupVersion, objects []runtime.RawExtension) ([]runtime.RawExtension, error) {
	if wanted.Group != converter.Kind().Group {
		return nil, fmt.Errorf("the kind is of the group %s, not %s", converter.Kind().Group, wanted.Group)
	}
	out := make([]runtime.RawExtension, len(objects))
	for i := range objects {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d objects were converted within %s; ask for fewer at a time", i, len(objects), conversionLimit)
		}
		var o map[string]any
		if err := utiljson.Unmarshal(objects[i].Raw, &o); err != nil || o == nil {
			return nil, fmt.Errorf("objects[%d] isn't an object", i)
		}
		converted, err := converter.Convert(o, wanted.Version)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(converted)
		if err != nil {
			return nil, fmt.Errorf("objects[%d] can't be written: %w", i, err)
		}
		out[i] = runtime.RawExtension{Raw: raw}
	}
	return out, nil
}

func failed(code int32, message string) *apiextensionsv1.ConversionResponse {
	return &apiextensionsv1.ConversionResponse{Result: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonInvalid, Message: diag.Cut(message, longestFailure),
	}}
}
