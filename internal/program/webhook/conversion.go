package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/conversion"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// maxFailure bounds the text of a failure, in bytes.
const maxFailure = 4 << 10

// Converters know how the objects of kinds are converted.
type Converters interface {
	// ConverterFor returns the converter of a CustomResourceDefinition's objects. The digest is of
	// the CustomResourceDefinition that the API server uses. It returns ErrNoConversion if
	// Espalier does not convert the kind.
	ConverterFor(ctx context.Context, name, digest string) (*conversion.Converter, error)
}

// ErrNoConversion is returned for a kind that Espalier does not convert.
var ErrNoConversion = errors.New("objects of this kind are not converted by this webhook")

// Conversions is the conversion webhook. It answers any request, also an invalid one.
type Conversions struct {
	Converters Converters
	Metrics    *telemetry.Conversions
	Log        logr.Logger

	decoding *semaphore.Weighted
}

// NewConversions returns the webhook.
func NewConversions(converters Converters, metrics *telemetry.Conversions, log logr.Logger) Conversions {
	return Conversions{Converters: converters, Metrics: metrics, Log: log, decoding: semaphore.NewWeighted(maxDecoding)}
}

// ServeHTTP answers a ConversionReview with one.
func (c Conversions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer recoverPanic(w, c.Log)
	if r.Method != http.MethodPost {
		http.Error(w, "the request is not a POST of a ConversionReview", http.StatusMethodNotAllowed)
		return
	}
	name, digest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, install.ConversionPath), "/")
	if !ok || name == "" || digest == "" || strings.Contains(digest, "/") {
		http.NotFound(w, r)
		return
	}
	review, err := readReview(http.MaxBytesReader(w, r.Body, maxConversionRequest))
	var exceeded *http.MaxBytesError
	switch {
	case errors.As(err, &exceeded):
		tooLarge(w, exceeded.Limit)
		return
	case errors.Is(err, errTooManyObjects):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := &apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Response: c.answer(r.Context(), name, digest, review.Request)}
	answer.Response.UID = review.Request.UID
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, "cannot encode the response", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // it fails only if the client has disconnected
}

func readReview(body io.Reader) (*apiextensionsv1.ConversionReview, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var review struct {
		metav1.TypeMeta `json:",inline"`

		Request *struct {
			UID               types.UID        `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           objectsToConvert `json:"objects"`
		} `json:"request"`
	}
	switch err := json.Unmarshal(raw, &review); {
	case errors.Is(err, errTooManyObjects):
		return nil, err
	case err != nil:
		return nil, errors.New("the body is not a ConversionReview")
	}
	if review.Kind != "ConversionReview" || review.APIVersion != apiextensionsv1.SchemeGroupVersion.String() || review.Request == nil {
		return nil, fmt.Errorf("the body is not a ConversionReview of %s with a request", apiextensionsv1.SchemeGroupVersion)
	}
	return &apiextensionsv1.ConversionReview{TypeMeta: review.TypeMeta, Request: &apiextensionsv1.ConversionRequest{
		UID: review.Request.UID, DesiredAPIVersion: review.Request.DesiredAPIVersion, Objects: review.Request.Objects,
	}}, nil
}

var errTooManyObjects = fmt.Errorf("the request has more than %d objects; list fewer at a time", maxConversionObjects)

// objectsToConvert are the objects of a conversion review. Millions of small ones fit into the bytes
// of one, so they are counted while they are decoded.
type objectsToConvert []runtime.RawExtension

// UnmarshalJSON implements json.Unmarshaler.
func (o *objectsToConvert) UnmarshalJSON(raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	switch first, err := decoder.Token(); {
	case err != nil:
		return err
	case first == nil: // null
		return nil
	case first != json.Delim('['):
		return errors.New("objects is not a list")
	}
	for decoder.More() {
		if len(*o) == maxConversionObjects {
			return errTooManyObjects
		}
		var object json.RawMessage
		if err := decoder.Decode(&object); err != nil {
			return err
		}
		*o = append(*o, runtime.RawExtension{Raw: object})
	}
	return nil
}

// answer converts all objects of a request, or none if one cannot be converted.
func (c Conversions) answer(ctx context.Context, name, digest string, r *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	began := time.Now()
	converter, err := c.Converters.ConverterFor(ctx, name, digest)
	if err != nil {
		c.Log.Error(err, "cannot convert objects", "CustomResourceDefinition", name)
		return failed(http.StatusInternalServerError, fmt.Sprintf("cannot determine how objects of %s are converted: %v", name, err))
	}
	wanted, err := schema.ParseGroupVersion(r.DesiredAPIVersion)
	if err != nil {
		return failed(http.StatusBadRequest, fmt.Sprintf("desiredAPIVersion %q is not a group and version", r.DesiredAPIVersion))
	}
	version := wanted.Version
	if !converter.HasVersion(version) {
		version = "unknown" // keeps the cardinality of the metric bounded
	}
	out, err := c.convertAll(ctx, converter, wanted, r.Objects)
	c.Metrics.Observe(converter.Kind(), version, len(out), err != nil, time.Since(began))
	if err != nil {
		c.Log.Info("cannot convert an object", "CustomResourceDefinition", name, "error", diag.Truncate(err.Error(), maxFailure))
		return failed(http.StatusUnprocessableEntity, err.Error())
	}
	return &apiextensionsv1.ConversionResponse{ConvertedObjects: out, Result: metav1.Status{Status: metav1.StatusSuccess}}
}

func (c Conversions) convertAll(ctx context.Context, converter *conversion.Converter, wanted schema.GroupVersion,
	objects []runtime.RawExtension) ([]runtime.RawExtension, error) {
	if wanted.Group != converter.Kind().Group {
		return nil, fmt.Errorf("the kind is in the group %s, not %s", converter.Kind().Group, wanted.Group)
	}
	out := make([]runtime.RawExtension, len(objects))
	for i := range objects {
		raw, err := c.convert(ctx, converter, wanted.Version, i, objects[i].Raw)
		if errors.Is(err, errLate) {
			return nil, fmt.Errorf("%d of %d objects were converted within the timeout of the request; list fewer at a time", i, len(objects))
		}
		if err != nil {
			return nil, err
		}
		out[i] = runtime.RawExtension{Raw: raw}
	}
	return out, nil
}

var errLate = errors.New("the timeout of the request has passed")

// convert converts the object with an index, once few enough other ones are decoded. It returns errLate if the
// context ends before.
func (c Conversions) convert(ctx context.Context, converter *conversion.Converter, version string, index int, raw []byte) ([]byte, error) {
	size := int64(len(raw))
	if size > maxDecoding {
		return nil, fmt.Errorf("objects[%d] has %d bytes, more than %d", index, size, maxDecoding)
	}
	if ctx.Err() != nil || c.decoding.Acquire(ctx, size) != nil {
		return nil, errLate
	}
	defer c.decoding.Release(size)
	var o map[string]any
	if err := utiljson.Unmarshal(raw, &o); err != nil || o == nil {
		return nil, fmt.Errorf("objects[%d] is not an object", index)
	}
	converted, err := converter.Convert(o, version)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(converted)
	if err != nil {
		return nil, fmt.Errorf("encode objects[%d]: %w", index, err)
	}
	return out, nil
}

func failed(code int32, message string) *apiextensionsv1.ConversionResponse {
	return &apiextensionsv1.ConversionResponse{Result: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonInvalid, Message: diag.Truncate(message, maxFailure),
	}}
}
