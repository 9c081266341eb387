package install

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
