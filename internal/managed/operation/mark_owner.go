package operation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// MarkOwner is how the mark of an external resource identifies a managed resource. The installation tells clusters
// apart that use the same external API.
func MarkOwner(kind schema.GroupKind, namespace, name, installation string) string {
	return fmt.Sprintf("%s/%s/%s@%s", kind, namespace, name, installation)
}

// describeMarkOwner names the owner on another managed resource's mark. As in describeOwner, a managed resource in a
// namespace is not told the names of objects elsewhere, in another installation's namespace neither. A user who can
// write marks can write any text into them.
func (s State) describeMarkOwner(mark *external.Mark) string {
	if mark.Holder != "" {
		return mark.Holder
	}
	owner := mark.Owner
	if own := markPlace(s.MarkOwner); s.Resource.Owner.Namespace != "" && (own == "" || markPlace(owner) != own) {
		return "another managed resource"
	}
	return owner
}

// foreignMark names the owner on another managed resource's mark, and says what to do. A resource that was orphaned keeps
// the mark of its former owner; one that the provider itself needs is not to be adopted.
func (s State) foreignMark(mark *external.Mark) string {
	text := s.describeMarkOwner(mark) + "; it is not changed"
	if mark.Holder == "" {
		text += ". If that object is gone, or has left it behind, remove the mark from the external resource"
	}
	return text
}

// The form is NAMESPACE@INSTALLATION; it is empty for another text.
func markPlace(owner string) string {
	parts := strings.Split(owner, "/")
	if len(parts) != 3 {
		return ""
	}
	_, installation, ok := strings.Cut(parts[2], "@")
	if !ok {
		return ""
	}
	return parts[1] + "@" + installation
}
