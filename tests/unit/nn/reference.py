"""MPHIL written out: one number at a time, plain Python floats, no tensor library.

Everything is a nested list. The letters are those of the equations: graphs `b` of B, tasks `t` of T, classes `c` of C,
prototypes `k` of K, coordinates `j` of p. A bank of prototypes is `M[t][c][k][j]`, an embedding `z[b][j]`, weights
`W[b][t][c][k]`, labels `y[b][t]` with None for a missing one. Slow and obvious on purpose: it is what the library is
compared with, and it shares no line and no idea of a shortcut with it.
"""

from __future__ import annotations

from math import exp, inf, isnan, log, sqrt


def listed(tensor):
    """Any tensor as nested lists of Python floats."""
    return tensor.detach().double().tolist()


def labelled(y):
    """Labels as nested lists: an integer, or None where the tensor holds NaN."""
    return [[None if isnan(value) else int(value) for value in row] for row in y.tolist()]


def dot(a, b):
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


def normalise(v):
    """v / |v|; a vector without direction stays zero."""
    length = sqrt(dot(v, v))
    return [value / length for value in v] if length > 0 else list(v)


# --- forward --------------------------------------------------------------------------------------------------------


def sigmoid(value):
    return 1 / (1 + exp(-value))


def readout(H, graph_of_node, n_graphs, how):
    """eq:readout: mean, sum or max over the nodes of each graph, channel by channel."""
    rows = []
    for b in range(n_graphs):
        nodes = [H[v] for v in range(len(H)) if graph_of_node[v] == b]
        row = []
        for j in range(len(H[0])):
            channel = [node[j] for node in nodes]
            row.append({"mean": sum(channel) / len(channel), "sum": sum(channel), "max": max(channel)}[how])
        rows.append(row)
    return rows


def masked_readout(H, S, graph_of_node, n_graphs, how="mean"):
    """Readout of H * S; S is None for the encoder without a scorer, which means S = 1."""
    if S is None:
        S = [[1.0] * len(row) for row in H]
    product = [[H[v][j] * S[v][j] for j in range(len(H[v]))] for v in range(len(H))]
    return readout(product, graph_of_node, n_graphs, how)


def linear(v, weight, bias=None):
    """weight v + bias, with `weight[out][in]`."""
    return [dot(weight[o], v) + (bias[o] if bias is not None else 0.0) for o in range(len(weight))]


def projector(v, first_weight, first_bias, second_weight, second_bias):
    """Two layers with a ReLU between them."""
    hidden = [max(0.0, value) for value in linear(v, first_weight, first_bias)]
    return linear(hidden, second_weight, second_bias)


def softmax(values):
    top = max(values)
    parts = [exp(value - top) for value in values]
    return [part / sum(parts) for part in parts]


def attention(z, M, W_Q, W_K, query_bias=None, key_bias=None, over_all=False):
    """eq:att for every class: softmax over its K prototypes (or, as released, over all C*K of the task)."""
    W = []
    for b in range(len(z)):
        query = linear(z[b], W_Q, query_bias)
        of_graph = []
        for t in range(len(M)):
            energies = []
            for c in range(len(M[t])):
                energies.append([])
                for k in range(len(M[t][c])):
                    key = linear(M[t][c][k], W_K, key_bias)
                    energies[c].append(dot(query, key) / sqrt(len(query)))
            if over_all:
                K = len(energies[0])
                flat = softmax([energy for row in energies for energy in row])
                of_graph.append([flat[c * K : (c + 1) * K] for c in range(len(energies))])
            else:
                of_graph.append([softmax(row) for row in energies])
        W.append(of_graph)
    return W


def cosine_attention(z, M, temperature, over_all=False):
    """softmax of cos(z, mu) / temperature over the K prototypes of each class, or over all C*K of the task."""
    W = []
    for row in z:
        of_graph = []
        for of_task in M:
            energies = [[dot(normalise(row), normalise(mu)) / temperature for mu in of_class] for of_class in of_task]
            if over_all:
                K = len(energies[0])
                flat = softmax([energy for of_class in energies for energy in of_class])
                of_graph.append([flat[c * K : (c + 1) * K] for c in range(len(energies))])
            else:
                of_graph.append([softmax(of_class) for of_class in energies])
        W.append(of_graph)
    return W


def balanced(similarities, epsilon, rounds):
    """Sinkhorn on the matrix [sample][k] of one class: columns to equal sums, rows to 1, in turns."""
    Q = [softmax([value / epsilon for value in row]) for row in similarities]
    K = len(similarities[0])
    for _ in range(rounds):
        columns = [sum(row[k] for row in Q) for k in range(K)]
        Q = [[row[k] / columns[k] for k in range(K)] for row in Q]
        Q = [[value / sum(row) for value in row] for row in Q]
    return Q


def sinkhorn(sim, y, epsilon=0.05, rounds=3):
    """W[b][t][c][k]: balanced weights of every sample in its own class, 0 in the others."""
    W = [[[[0.0 for _ in row] for row in of_task] for of_task in of_graph] for of_graph in sim]
    for t in range(len(sim[0])):
        for c in range(len(sim[0][t])):
            members = [b for b in range(len(sim)) if y[b][t] == c]
            if members:
                for b, row in zip(members, balanced([sim[b][t][c] for b in members], epsilon, rounds), strict=True):
                    W[b][t][c] = row
    return W


def uniform(B, T, C, K):
    return [[[[1 / K for _ in range(K)] for _ in range(C)] for _ in range(T)] for _ in range(B)]


def prune_row(row, n):
    """Keep the n largest as they are and set the rest to zero; of equal ones the first are kept. n = 0 keeps all."""
    if n == 0:
        return list(row)
    kept = sorted(range(len(row)), key=lambda k: (-row[k], k))[:n]
    return [row[k] if k in kept else 0.0 for k in range(len(row))]


def prune(W, n):
    return [[[prune_row(row, n) for row in of_task] for of_task in of_graph] for of_graph in W]


def similarity(z, M):
    """<M_tck, z_b> for every b, t, c, k."""
    return [[[[dot(mu, z[b]) for mu in of_class] for of_class in of_task] for of_task in M] for b in range(len(z))]


def weighted(W, sim, tau):
    """W[b][t][c][k] * exp(sim / tau)."""
    return [
        [
            [
                [W[b][t][c][k] * exp(sim[b][t][c][k] / tau) for k in range(len(sim[b][t][c]))]
                for c in range(len(sim[b][t]))
            ]
            for t in range(len(sim[b]))
        ]
        for b in range(len(sim))
    ]


def class_scores(W, sim, tau, how="max"):
    """eq:classify: score[b][t][c] = max (mean, min, sum) over k of W exp(sim / tau); pruned slots take no part."""
    scores = []
    for of_graph in weighted(W, sim, tau):
        rows = []
        for of_task in of_graph:
            row = []
            for values in of_task:
                values = [value for value in values if value > 0]
                row.append(
                    {"max": max(values), "min": min(values), "sum": sum(values), "mean": sum(values) / len(values)}[how]
                )
            rows.append(row)
        scores.append(rows)
    return scores


def probabilities(scores):
    return [[[score / sum(row) for score in row] for row in rows] for rows in scores]


def log_scores(scores):
    return [[[log(score) if score > 0 else -inf for score in row] for row in rows] for rows in scores]


def answers(logits, kind):
    """What `predict` gives: the class logits, or logit[1] - logit[0] of each task."""
    if kind == "multiclass":
        return [rows[0] for rows in logits]
    return [[row[1] - row[0] for row in rows] for rows in logits]


# --- prototypes -----------------------------------------------------------------------------------------------------


def updated(M, z, W, y, alpha, mean=False):
    """eq:update_prototype: normalise(alpha M + (1 - alpha) sum, or mean, of weighted embeddings).

    A slot that received nothing stays, and so does one whose sum has no direction.
    """
    fresh = []
    for t in range(len(M)):
        of_task = []
        for c in range(len(M[t])):
            of_class = []
            for k in range(len(M[t][c])):
                gathered, touched, weight = [0.0] * len(M[t][c][k]), False, 0.0
                for b in range(len(z)):
                    if y[b][t] is not None and y[b][t] == c and W[b][t][c][k] > 0:
                        touched, weight = True, weight + W[b][t][c][k]
                        for j in range(len(gathered)):
                            gathered[j] += W[b][t][c][k] * z[b][j]
                if mean and touched:
                    gathered = [value / weight for value in gathered]
                mu = M[t][c][k]
                moved = normalise([alpha * mu[j] + (1 - alpha) * gathered[j] for j in range(len(mu))])
                of_class.append(moved if touched and dot(moved, moved) > 0 else list(mu))
            of_task.append(of_class)
        fresh.append(of_task)
    return fresh


def hard_weights(sim):
    """1 for the nearest prototype of every class, 0 for the others; of equal ones the first."""
    return [
        [
            [[1.0 if k == row.index(max(row)) else 0.0 for k in range(len(row))] for row in of_task]
            for of_task in of_graph
        ]
        for of_graph in sim
    ]


# --- losses ---------------------------------------------------------------------------------------------------------


def cross_entropy(logits, y, class_mean=False):
    """L_C: -log softmax at the label, mean over the labels there are; 0 when there are none."""
    values = []
    for b in range(len(y)):
        for t in range(len(y[b])):
            if y[b][t] is None:
                continue
            values.append(-log(softmax(logits[b][t])[y[b][t]]))
    if not values:
        return 0.0
    return sum(values) / len(values) / (len(logits[0][0]) if class_mean else 1)


def matching(sim, y, tau):
    """L_IPM: -log of the share of the own class's prototypes among all, mean over the labels there are."""
    values = []
    for b in range(len(y)):
        for t in range(len(y[b])):
            if y[b][t] is None:
                continue
            own = sum(exp(value / tau) for value in sim[b][t][y[b][t]])
            everything = sum(exp(value / tau) for row in sim[b][t] for value in row)
            values.append(-log(own / everything))
    return sum(values) / len(values) if values else 0.0


def separation(M, tau):
    """L_PS inside each task, mean over prototypes, then over tasks. K = 1: only the log of the denominator."""
    of_tasks = []
    for task in M:
        values = []
        for c in range(len(task)):
            for k in range(len(task[c])):
                near = [exp(dot(task[c][k], task[c][o]) / tau) for o in range(len(task[c])) if o != k]
                far = [exp(dot(task[c][k], mu) / tau) for d in range(len(task)) if d != c for mu in task[d]]
                values.append(log(sum(far)) - (log(sum(near)) if near else 0.0))
        of_tasks.append(sum(values) / len(values))
    return sum(of_tasks) / len(of_tasks)


def dispersion(M, tau):
    """The log of the denominator of L_PS alone, mean over prototypes, then over tasks."""
    of_tasks = []
    for task in M:
        values = []
        for c in range(len(task)):
            others = [nu for d in range(len(task)) if d != c for nu in task[d]]
            values += [log(sum(exp(dot(mu, nu) / tau) for nu in others)) for mu in task[c]]
        of_tasks.append(sum(values) / len(values))
    return sum(of_tasks) / len(of_tasks)


def score_ratio(S, graph_of_node, n_graphs, gamma):
    """Mean over graphs of | mean score of the graph - gamma |, scores averaged over channels first."""
    values = []
    for b in range(n_graphs):
        nodes = [sum(S[v]) / len(S[v]) for v in range(len(S)) if graph_of_node[v] == b]
        values.append(abs(sum(nodes) / len(nodes) - gamma))
    return sum(values) / len(values)


# --- as released (baselines_b.md, 0.3 and 0.4), slots class-major and both labels -----------------------------------


def released_logits(Q, z, M):
    """score[b][t][c] = max over k of Q <z, mu>, used as logits; no temperature, no exponential."""
    return [
        [
            [max(Q[b][t][c][k] * dot(z[b], M[t][c][k]) for k in range(len(M[t][c]))) for c in range(len(M[t]))]
            for t in range(len(M))
        ]
        for b in range(len(z))
    ]


def released_separation(M, tau=0.5):
    """-[ sum over the same class, j != i, of S_ij - log of the sum over all j != i of exp S_ij ], S = mu mu^T / tau."""
    of_tasks = []
    for task in M:
        slots = [(c, mu) for c in range(len(task)) for mu in task[c]]
        values = []
        for i, (c, mu) in enumerate(slots):
            others = [(d, dot(mu, nu) / tau) for j, (d, nu) in enumerate(slots) if j != i]
            pull = sum(value for d, value in others if d == c)
            values.append(-(pull - log(sum(exp(value) for _, value in others))))
        of_tasks.append(sum(values) / len(values))
    return sum(of_tasks) / len(of_tasks)


# --- what the sphere gives for free ---------------------------------------------------------------------------------


def nearest_of_predicted(logits, sim):
    """[b][t]: the prototype k of the predicted class with the largest similarity."""
    found = []
    for b in range(len(logits)):
        row = []
        for t in range(len(logits[b])):
            c = logits[b][t].index(max(logits[b][t]))
            row.append(sim[b][t][c].index(max(sim[b][t][c])))
        found.append(row)
    return found


def ood_scores(sim, tau):
    """-max over classes of the log of the mean over k of exp(sim / tau), averaged over tasks."""
    scores = []
    for of_graph in sim:
        of_tasks = []
        for of_task in of_graph:
            likelihoods = [log(sum(exp(value / tau) for value in row) / len(row)) for row in of_task]
            of_tasks.append(-max(likelihoods))
        scores.append(sum(of_tasks) / len(of_tasks))
    return scores


def kmeans(points, centres, rounds):
    """k-means on the sphere: give every point to its most similar centre, point the centre along their sum."""
    for _ in range(rounds):
        moved = []
        for k in range(len(centres)):
            mine = []
            for point in points:
                nearness = [dot(point, centre) for centre in centres]
                if nearness.index(max(nearness)) == k:
                    mine.append(point)
            total = [sum(point[j] for point in mine) for j in range(len(centres[k]))]
            moved.append(normalise(total) if dot(total, total) > 0 else centres[k])
        centres = moved
    return centres


# --- the whole method -----------------------------------------------------------------------------------------------


def place(state, H, raw, graph_of_node, n_graphs, *, how="mean", project=True, on_sphere=True):
    """Sections 1.1-1.3: node features and raw scores to embeddings; `state` holds the projector's weights."""
    S = None if raw is None else [[sigmoid(value) for value in row] for row in raw]
    z = masked_readout(H, S, graph_of_node, n_graphs, how)
    if project:
        names = ("projector.0.weight", "projector.0.bias", "projector.2.weight", "projector.2.bias")
        z = [projector(row, *(state[name] for name in names)) for row in z]
    return [normalise(row) for row in z] if project and on_sphere else z


def weigh(state, z, M, *, weights="attention", over_all=False):
    """Section 1.5 before pruning: attention, or the uniform and nearest-only weights of section 7."""
    if weights == "attention":
        biases = (state.get("query.bias"), state.get("key.bias"))
        return attention(z, M, state["query.weight"], state["key.weight"], *biases, over_all=over_all)
    return uniform(len(z), len(M), len(M[0]), len(M[0][0])) if weights == "uniform" else hard_weights(similarity(z, M))


def mphil(
    state, H, raw, graph_of_node, y, M, *, keep=1, tau=0.1, alpha=0.99, beta=0.1, aggregate="max", weights="attention",
    over_all=False, class_mean=False, moves=True, **placing,
):  # fmt: skip
    """One step as in the paper's algorithm: embed, weigh, move, score, three losses. M are the prototypes before it."""
    z = place(state, H, raw, graph_of_node, len(y), **placing)
    W = weigh(state, z, M, weights=weights, over_all=over_all)
    W = prune(W, keep) if weights == "attention" else W
    M = updated(M, z, W, y, alpha) if moves else M
    sim = similarity(z, M)
    logits = log_scores(class_scores(W, sim, tau, aggregate))
    return {
        "z": z,
        "prototypes": M,
        "logits": logits,
        "classification": cross_entropy(logits, y, class_mean),
        "separation": separation(M, tau),
        "matching": beta * matching(sim, y, tau),
    }


def repaired(state, H, raw, graph_of_node, y, M, *, keep=1, tau=0.1, alpha=0.95, beta=1.0, T=0.1, compared=None):
    """One step of the preset `repaired`. `compared`: the prototypes of the matching, which carry no gradient."""
    z = place(state, H, raw, graph_of_node, len(y))
    W = prune(cosine_attention(z, M, T), keep)
    M = updated(M, z, sinkhorn(similarity(z, M), y), y, alpha, mean=True)
    logits = log_scores(class_scores(W, similarity(z, M), tau))
    return {
        "prototypes": M,
        "classification": cross_entropy(logits, y),
        "separation": dispersion(M, tau),
        "matching": beta * matching(similarity(z, M if compared is None else compared), y, tau),
    }


def released(
    state, H, raw, graph_of_node, y, M, *, keep=1, alpha=0.9, gamma=0.9, score_weight=0.5, compared=None,
):  # fmt: skip
    """One step of the authors' code. `compared`: the prototypes of the dot product, which carry no gradient there."""
    z = place(state, H, raw, graph_of_node, len(y), on_sphere=False)
    M = updated(M, z, prune(weigh(state, z, M, over_all=True), keep), y, alpha)
    logits = released_logits(weigh(state, z, M, over_all=True), z, M if compared is None else compared)
    S = [[sigmoid(value) for value in row] for row in raw]
    return {
        "z": z,
        "prototypes": M,
        "logits": logits,
        "classification": cross_entropy(logits, y),
        "separation": released_separation(M),
        "score": score_weight * score_ratio(S, graph_of_node, len(y), gamma),
    }
