package awscloud

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheTableOfNativeReadsIsComplete(t *testing.T) {
	raw, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^//\t(AWS::\w+::\w+) +(.*)$`).FindAllStringSubmatch(string(raw), -1) {
		documented[m[1]] = m[2]
	}
	for name, r := range readers {
		text, ok := documented[name]
		if !ok {
			t.Errorf("%s is not in the table", name)
		} else if strings.Contains(text, "listed") != (r.list != nil) {
			t.Errorf("the table is wrong on whether %s is listed natively", name)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("%s is in the table, but not read natively", name)
	}
}
