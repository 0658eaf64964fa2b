package measure

// ROCPoint is a point of a receiver operating characteristic. Rows with a score of at least
// Threshold are flagged.
type ROCPoint struct {
	FPR       float64 // fraction of in-distribution rows that are flagged (false-alarm rate)
	TPR       float64 // fraction of OOD rows that are flagged (detection rate)
	Threshold float64
}

// ROC returns the curve from (0,0) to (1,1), for plots. The first point gets the threshold of
// the second point. If limit is at least 2, a longer curve is thinned to at most limit points,
// evenly in FPR + TPR. The ends are kept.
func ROC(in, out []float64, limit int) ([]ROCPoint, error) {
	c, err := newCurve(in, out)
	if err != nil {
		return nil, err
	}
	points := make([]ROCPoint, 1, len(c.thresholds)+1)
	points[0].Threshold = c.thresholds[0]
	flagged, detected := 0, 0
	for k, threshold := range c.thresholds {
		flagged, detected = flagged+int(c.in[k]), detected+int(c.out[k])
		points = append(points, ROCPoint{
			FPR:       float64(flagged) / float64(c.nIn),
			TPR:       float64(detected) / float64(c.nOut),
			Threshold: threshold,
		})
	}
	return thinned(points, limit, func(p ROCPoint) float64 { return (p.FPR + p.TPR) / 2 }), nil
}

// thinned returns at most limit of the points, evenly spaced in position, which increases to
// 1. It divides the range of position into limit−1 equal steps, and keeps the first point that
// reaches each step. It keeps both ends. If limit is below 2, it returns all points.
func thinned[P any](points []P, limit int, position func(P) float64) []P {
	if limit < 2 || len(points) <= limit {
		return points
	}
	thin := points[:1]
	for _, p := range points[1:] {
		if count := len(thin); count < limit-1 && position(p) < 1 && position(p) >= float64(count)/float64(limit-1) {
			thin = append(thin, p)
		}
	}
	return append(thin, points[len(points)-1])
}
