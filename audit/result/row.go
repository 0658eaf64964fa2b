package result

import (
	"math"
	"strconv"
)

// Row describes one input and its results.
type Row struct {
	// Key is the name of the input: the path of its file, or its file and row number. At is its
	// row in the file or folder Shard, counted from 0.
	Key   string `json:"key"`
	Shard string `json:"shard"`
	At    int    `json:"row"`
	// Score grows with uncertainty. PValue is its conformal p-value.
	Score     Float   `json:"ood_score"`
	PValue    float64 `json:"p_value"`
	Discovery bool    `json:"discovery"`
	Class     *int    `json:"class,omitempty"`
	ClassName string  `json:"class_name,omitempty"`
	// Confidence is the confidence in Class. Prediction, Lower and Upper have one element
	// per target.
	Confidence     *Float  `json:"confidence,omitempty"`
	Prediction     []Float `json:"prediction,omitempty"`
	Lower          []Float `json:"lower,omitempty"`
	Upper          []Float `json:"upper,omitempty"`
	Target         []Float `json:"target,omitempty"`
	FitDuplicateOf string  `json:"fit_duplicate_of,omitempty"`
	// Label is the given label of a classifier's row, and Suggested the most probable other
	// class. LabelScore, LabelPValue and LabelDiscovery have one element for each of
	// Audit.LabelErrors.
	Label          *int    `json:"label,omitempty"`
	LabelName      string  `json:"label_name,omitempty"`
	Suggested      *int    `json:"suggested_label,omitempty"`
	SuggestedName  string  `json:"suggested_label_name,omitempty"`
	LabelScore     []Float `json:"label_score,omitempty"`
	LabelPValue    []Float `json:"label_p_value,omitempty"`
	LabelDiscovery []bool  `json:"label_discovery,omitempty"`
	// NearestFitRow is the key of the fit row with the nearest features, for a row of
	// HighestScoring.
	NearestFitRow string `json:"nearest_fit_row,omitempty"`
	// Reasons are the first reasons of a row of HighestScoring, and what raised its score if
	// the score was attributed.
	Reasons []string `json:"reasons,omitempty"`
	// Cluster is the name of the row's cluster in Audit.Clusters, or empty.
	Cluster string `json:"cluster,omitempty"`
	// Folder is the folder of the row. Shown is what the report shows of the row. Neither is in
	// audit.json.
	Folder string `json:"-"`
	Shown  *Shown `json:"-"`
}

// Float is a number whose JSON form is null if it is not finite.
type Float float64

// MarshalJSON implements json.Marshaler. It writes nine significant digits.
func (f Float) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) || math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'g', 9, 64), nil
}

// UnmarshalJSON implements json.Unmarshaler. It reads null as NaN.
func (f *Float) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*f = Float(math.NaN())
		return nil
	}
	x, err := strconv.ParseFloat(string(text), 64)
	*f = Float(x)
	return err
}

// Shown is what the report shows of a row.
type Shown struct {
	// Picture is a small picture of the row, as PNG or JPEG. Cells are the first cells of a row
	// of a table.
	Picture []byte `json:"picture,omitempty"`
	Cells   []Cell `json:"cells,omitempty"`
	// Nearest is the key of the fit row with the nearest features, and NearestPicture its
	// picture. Both are empty unless Settings.Fitted is set.
	Nearest        string `json:"nearest,omitempty"`
	NearestPicture []byte `json:"nearest_picture,omitempty"`
	// Explained names new words of a text, and which inputs raised the score, such as "score:
	// 74 % MedInc". HeatMap is a picture of the regions that did. Both are nil unless the score
	// was attributed.
	Explained []string `json:"explained,omitempty"`
	HeatMap   []byte   `json:"heat_map,omitempty"`
}

// Cell is a cell of a table.
type Cell struct {
	Column string `json:"column"`
	// Number is nil if the cell is a text, or a number that is not finite.
	Number  *float64 `json:"number,omitempty"`
	Text    string   `json:"text,omitempty"`
	Unusual bool     `json:"unusual,omitempty"` // whether the cell is a reason
	Share   float64  `json:"share,omitempty"`   // fraction of the score that the cell explains
	// Words divides a text whose words explain fractions of the score. Otherwise it is nil.
	Words []Word `json:"words,omitempty"`
}

// Word is a word of a text, or the text between two words.
type Word struct {
	Text    string  `json:"text"`
	Share   float64 `json:"share,omitempty"`   // fraction of the score that it explains
	Unknown bool    `json:"unknown,omitempty"` // whether the profile lacks it
}
