% Writes gpi.json: what the authors' code of GPI says of four pairs of 100 rows, made by the formulas of agree.py.
%
%   octave-cli gpi.m CODE
%
% CODE is the folder of their code, nips2010-gpi-code, with gpi, mixturecode and the gpml toolbox in it. Octave 7.3, 600
% evaluations of each cost.
% parts are the terms of its cost at noise of a formula, lengths those of its minimum for both directions and of the
% mixtures, whose start is random.
code = argv(){1};
addpath([code '/gpi'], [code '/mixturecode']);
run([code '/gpml-matlab-v3.1-2010-09-27/startup.m']);
warning('off', 'all');
rand('state', 1); randn('state', 1);
i = (1:100)';
u = mod(i * 0.6180339887498949, 1); v = mod(i * 0.41421356237309515, 1);
logistic = log(u ./ (1 - u)); even = 2 * u - 1;
pairs = struct('name', {'linear', 'additive', 'saturated', 'scaled'}, ...
  'x', {logistic.^3, even, logistic, even}, ...
  'y', {0.02 * logistic.^3 + 2 * v, even.^3 + even + 0.6 * v, tanh(logistic) + 0.1 * log(v ./ (1 - v)), even.^2 .* (1 + 0.6 * v)});
cfg = struct('jitter', 1e-5, 'epslabs', 1e-3, 'barrier', 1e2, 'minimize', @minimize, 'Ncg', 600);
cfg.priors = {[30, 0.5], [30, 0.5], [30, 0.5]};
lines = {};
for p = pairs
  x = normalize_(p.x, 2); y = normalize_(p.y, 2);
  hyp = struct('cov', log([5; 2; 3]), 'e', 2 * v - 1 + y);
  parts = gpi_objfun(hyp, cfg, {@gpi_kernel_seard}, x, y, true);
  lengths = [gpi_train(x, y, cfg), gpi_train(y, x, cfg), mmlgmm(x, struct('reg', 1e-4)), mmlgmm(y, struct('reg', 1e-4))];
  lines{end + 1} = sprintf('  "%s": {"parts": [%.10g, %.10g, %.10g, %.10g], "lengths": [%.8g, %.8g, %.8g, %.8g]}', ...
    p.name, parts.GP, parts.E, parts.IT, sum(parts.prior), lengths);
end
file = fopen('gpi.json', 'w');
fprintf(file, '{\n%s\n}\n', strjoin(lines, ",\n"));
fclose(file);
