package spelling

import "testing"

// TestMeant: what people mistype is taken for one name, and for none where that would be a guess.
func TestMeant(t *testing.T) {
	known := []string{"amount", "card_id", "customer_country", "age", "x1", "x2", "feature_16", "plan", "plane"}
	for name, want := range map[string]string{
		"amont": "amount", "ammount": "amount", "amuont": "amount", "amaunt": "amount", "AMOUNT": "amount", "cardId": "card_id", "card": "",
		"custmer_contry": "customer_country", "custmr_contry": "", "agee": "", "Age": "age", "x3": "", "feature_17": "", "feature16": "feature_16",
		"plann": "", "": "", "country": "", "\xff\xfe": "",
	} {
		if got := Meant(name, known); got != want {
			t.Errorf("%q may have been meant for %q, want %q", name, got, want)
		}
	}
}
