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

// acceptedAnnotation holds the accepted definition of a kind: the last one that compiled. With
// it, the kind is still served after a restart while the definition is invalid and no revision
// of it is kept.
const acceptedAnnotation = "espalier.dev/accepted-definition"

// maxAcceptedSize bounds the annotation, of the 256 KiB that all annotations of an object may
// have together; maxUnpackedSize bounds its decompressed content.
const (
	maxAcceptedSize = 160 << 10
	maxUnpackedSize = 8 << 20
)

// SetAccepted stores the accepted definition, of any dialect, in an annotation of its
// CustomResourceDefinition, unless it is too large.
func SetAccepted(c *apiextensionsv1.CustomResourceDefinition, definition any) error {
	text, err := pack(definition)
	if err == nil && len(text) <= maxAcceptedSize {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, acceptedAnnotation, text)
	}
	return err
}

func pack(definition any) (string, error) {
	raw, err := json.Marshal(definition)
	if err != nil {
		return "", fmt.Errorf("encode the definition: %w", err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(raw); err != nil {
		return "", fmt.Errorf("compress the definition: %w", err)
	}
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("compress the definition: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// ReadAccepted reads the accepted definition of a CustomResourceDefinition. It returns false if
// there is none or it is malformed.
func ReadAccepted(c *apiextensionsv1.CustomResourceDefinition, into any) bool {
	return unpack(c.Annotations[acceptedAnnotation], into)
}

// It returns false for a text that pack has not encoded.
func unpack(text string, into any) bool {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(packed) == 0 {
		return false
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return false
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxUnpackedSize))
	if err != nil {
		return false
	}
	return json.Unmarshal(raw, into) == nil
}
