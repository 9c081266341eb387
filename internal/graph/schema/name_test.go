package schema_test

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/graph/schema"
)

func TestParseNameAppliesMarkers(t *testing.T) {
	s, problems := schema.ParseName(`maxLength=30 minLength=2 pattern="^[a-z]+$" enum="ab,cd" validation="self != 'kube'"`, "at")
	if len(problems) > 0 {
		t.Fatal(problems.Err())
	}
	if s.Type != "string" || *s.MaxLength != 30 || *s.MinLength != 2 || s.Pattern != "^[a-z]+$" || len(s.Enum) != 2 || s.XValidations[0].Rule != "self != 'kube'" {
		t.Errorf("the schema is %+v", s)
	}
}

func TestParseNameRefusesOtherMarkers(t *testing.T) {
	for markers, want := range map[string]string{
		"maxLength=5 required=true": `at: in "maxLength=5 required=true" at 13: marker "required" does not apply to a name`,
		"default=x":                 `marker "default" does not apply to a name; expected minLength, maxLength, pattern, enum, validation, message`,
		"maxLength=5 description=x": `marker "description" does not apply to a name`,
		"maxlength=5":               `at: in "maxlength=5" at 1: there is no marker "maxlength"; did you mean "maxLength"?`,
		"maxLength=five":            `"five" is not a value of marker "maxLength"`,
		"string":                    `marker "string" has no value`,
		" ":                         "at: has no marker; it can have minLength",
	} {
		_, problems := schema.ParseName(markers, "at")
		if len(problems) == 0 {
			t.Errorf("%q has no problem", markers)
			continue
		}
		if got := problems.Err().Error(); !strings.Contains(got, want) {
			t.Errorf("%q: %s", markers, got)
		}
	}
}
