package archive

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/object/bounded"
)

// Limits of what an import reads. An archive may be written by somebody else, and all of it is
// read into memory before anything is written.
const (
	// MaxBytes is the default limit of a whole archive; --max-bytes changes it.
	MaxBytes = 512 << 20
	// maxDocument limits one document. The API server's limit of a request is 3 MiB.
	maxDocument = 4 << 20
	// maxObjects limits the documents.
	maxObjects = 1_000_000
	// maxDepth limits how deep the values of a document are nested.
	maxDepth = 128
	// maxName limits a name, in bytes.
	maxName = 253
	// maxRevision limits the number of a revision: the controllers add to it.
	maxRevision = 1_000_000_000
	// maxShown limits what a message shows of an invalid name.
	maxShown = 64
	// maxProblems limits how many problems of the format are listed.
	maxProblems = 100
)

// checkDocument checks the form of a document before it is decoded: an alias stands for a value
// of any size, so that a small document with aliases can be a large object.
func checkDocument(raw []byte) error {
	root, err := bounded.Parse(raw, maxDocument)
	if err != nil {
		return err
	}
	return checkNode(root, 0)
}

func checkNode(n *yaml.Node, depth int) error {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return errors.New("it has YAML anchors or aliases, which an export never has")
	case depth > maxDepth:
		return fmt.Errorf("its values are nested more than %d levels deep", maxDepth)
	}
	for _, child := range n.Content {
		if err := checkNode(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// nameProblem returns why an object's name or namespace cannot be one; empty if it can. Names
// become parts of URLs and of messages.
func nameProblem(key object.Key) string {
	switch {
	case len(key.Name) > maxName || len(content.IsPathSegmentName(key.Name)) > 0 || !isPrintable(key.Name):
		return fmt.Sprintf("a document of kind %s has an invalid name: %s", quote(key.Kind), quote(key.Name))
	case key.Namespace != "" && len(validation.IsDNS1123Label(key.Namespace)) > 0:
		return fmt.Sprintf("a document of kind %s has an invalid namespace: %s", quote(key.Kind), quote(key.Namespace))
	case len(validation.IsDNS1035Label(strings.ToLower(key.Kind))) > 0 || key.Group != "" && len(validation.IsDNS1123Subdomain(key.Group)) > 0:
		return fmt.Sprintf("a document has an invalid kind: %s of %s", quote(key.Kind), quote(key.Group))
	}
	return ""
}

func quote(text string) string { return fmt.Sprintf("%q", diag.Truncate(text, maxShown)) }

// isPrintable reports whether a text can be part of a message as it is.
func isPrintable(text string) bool {
	return !slices.ContainsFunc([]rune(text), func(r rune) bool { return r < '!' || r > '~' })
}
