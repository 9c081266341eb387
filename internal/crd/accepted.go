package crd

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// acceptedAnnotation holds the definition that a kind is served by: the last one
// that compiled. With it a restart goes on serving while the definition is
// broken, where no revision of it is kept.
const acceptedAnnotation = "espalier.dev/accepted-definition"

// mostAccepted bounds the annotation, of the 256 KiB that all annotations of an
// object may take together; and what it may unpack to.
const (
	mostAccepted = 160 << 10
	mostUnpacked = 8 << 20
)

// Accept notes on the CustomResourceDefinition which definition it serves. One
// that is too large to note isn't, nor is one with a Secret's values in it, which
// those who may read kinds needn't be allowed to read; it then has to compile
// after a restart.
func Accept(c *apiextensionsv1.CustomResourceDefinition, spec *v1alpha1.DefinitionSpec) error {
	if HoldsSecret(spec) {
		return nil
	}
	return Note(c, spec)
}

// Note notes on a CustomResourceDefinition what it serves, in whatever dialect that is
// written, unless it is too large to.
func Note(c *apiextensionsv1.CustomResourceDefinition, what any) error {
	raw, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encode the definition: %w", err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(raw); err != nil {
		return fmt.Errorf("pack the definition: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("pack the definition: %w", err)
	}
	text := base64.StdEncoding.EncodeToString(packed.Bytes())
	if len(text) <= mostAccepted {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, acceptedAnnotation, text)
	}
	return nil
}

// holdsSecret says whether a template has a Secret's values written out. A value
// that is one expression without a text in it is computed, and tells nothing.
func holdsSecret(r *v1alpha1.Resource) bool {
	var template struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Data       any    `json:"data"`
		StringData any    `json:"stringData"`
	}
	if r == nil || json.Unmarshal(r.Template.Raw, &template) != nil {
		return false
	}
	return template.APIVersion == "v1" && template.Kind == "Secret" && (literal(template.Data) || literal(template.StringData))
}

func literal(value any) bool {
	switch value := value.(type) {
	case nil:
		return false
	case map[string]any:
		for _, v := range value {
			if literal(v) {
				return true
			}
		}
		return false
	case string:
		computed := strings.HasPrefix(value, "${") && strings.HasSuffix(value, "}") && strings.Count(value, "${") == 1 && !strings.ContainsAny(value, "\"'")
		return value != "" && !computed
	}
	return true
}

// Accepted returns the definition that the CustomResourceDefinition was last
// served by, if it is noted and readable.
func Accepted(c *apiextensionsv1.CustomResourceDefinition) (*v1alpha1.DefinitionSpec, bool) {
	spec := &v1alpha1.DefinitionSpec{}
	if !Noted(c, spec) {
		return nil, false
	}
	return spec, true
}

// Noted reads what is noted on a CustomResourceDefinition, if there is anything and it
// is readable.
func Noted(c *apiextensionsv1.CustomResourceDefinition, into any) bool {
	packed, err := base64.StdEncoding.DecodeString(c.Annotations[acceptedAnnotation])
	if err != nil || len(packed) == 0 {
		return false
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return false
	}
	raw, err := io.ReadAll(io.LimitReader(z, mostUnpacked))
	if err != nil {
		return false
	}
	return json.Unmarshal(raw, into) == nil
}
